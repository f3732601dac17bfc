"""The engine of feed-forward methods: no diffusion model, no inversion; pictures in, picture out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..job import Progress, Settings
from ..methods.feedforward.network import FeedForward
from .compose import at_photo_size
from .inputs import JobInputs, composited
from .prepare import Prepared
from .run import Run, settled_size, size_notes


@dataclass(frozen=True)
class FeedForwardEngine:
    """A method's own networks on a device."""

    method: FeedForward
    device: torch.device

    def __post_init__(self) -> None:
        self.method.ready(self.device)

    @property
    def stride(self) -> int:
        return self.method.stride

    def settled(self, settings: Settings, inputs: JobInputs) -> Settings:
        """There are no levels: a network paints at any size at once."""
        return settings.with_(size=settled_size(settings, inputs), coarse="off", windows="off")

    def check(self, ready: Prepared) -> None:
        """Networks of this kind take any mask."""

    def notes(self, ready: Prepared) -> list[str]:
        return size_notes(ready)

    def record(self) -> dict[str, Any]:
        """What a record says of the networks behind a picture."""
        return {
            "model": {"name": None, "fingerprint": self.method.fingerprint},
            "device": self.device.type,
            "dtype": "float32",
            "prediction_type": None,
            "compiled": False,
        }

    @torch.inference_mode()
    def paint(self, ready: Prepared, run: Run) -> list[Image.Image]:
        """One picture, or one per region for a method that knows one style."""
        inputs, method = ready.inputs, self.method
        content = _unit(ready.image).to(self.device)
        grid = (ready.canvas[1], ready.canvas[0])
        masks = ready.masks_on(grid)
        styles = [_unit(style.image).to(self.device) for style in ready.styles]
        style_masks = [style.mask_on(style.size) for style in ready.styles]
        style_masks = [None if mask is None else mask.to(self.device) for mask in style_masks]

        def painted(chosen: slice, weights: Tensor) -> Image.Image:
            out = method.paint(content, styles[chosen], weights.to(self.device), style_masks[chosen])
            return at_photo_size(out * 2 - 1, ready.inner, inputs.photo)

        parts: list[Image.Image] = []
        if composited(method, inputs):
            for i in range(len(styles)):
                own = masks[i : i + 1]
                weights = torch.ones_like(own) if method.family == "global-single" else own
                parts.append(painted(slice(i, i + 1), weights))
                self._tell(run, i + 1, len(styles), parts[-1])
        else:
            parts.append(painted(slice(None), masks * inputs.strengths))
            self._tell(run, 1, 1, parts[-1])
        run.stages.done("paint")
        return parts

    def _tell(self, run: Run, done: int, total: int, picture: Image.Image) -> None:
        if run.on_step is not None:
            run.on_step(Progress("paint", done, total, 0, None, lambda: np.asarray(picture)))


def _unit(image: Tensor) -> Tensor:
    """[-1, 1] -> [0, 1]."""
    return (image + 1) / 2
