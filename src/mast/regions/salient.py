"""The salient object of a photo, as U2-Net-p sees it (Qin et al. 2020, https://arxiv.org/abs/2005.09007): the
one thing that catches the eye, without a click.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from PIL import Image

from ..job import InputError
from ..weights.registry import OnBytes, locate
from .segment import Proposal

SIDE = 320  # pixels of the square that the network sees
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SEEN = 0.5  # the network's own certainty somewhere, below which the photo has no salient object


class SalientObject:
    """weights: the path of u2netp.onnx; without one it is looked for among mast's weights, and fetched."""

    name = "u2netp"

    def __init__(self, weights: str | os.PathLike[str] | None = None, on_bytes: OnBytes | None = None):
        try:
            import onnxruntime
        except ImportError as error:
            raise InputError("finding objects needs onnxruntime; pip install 'mast[segment]'") from error
        path = locate(self.name, weights, on_bytes)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has an exception of its own for every way to fail
            raise InputError(f"{path}: not a network that onnxruntime can read; fetch it again") from error

    def propose(self, photo: Image.Image) -> list[Proposal]:
        """One object, or none."""
        mask = self.probability(photo)
        top = float(mask.max())
        return [Proposal(mask, top)] if top >= SEEN else []

    def probability(self, photo: Image.Image) -> np.ndarray:
        """float32 (h, w): how much each pixel belongs to what catches the eye."""
        pixels = np.asarray(photo.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS), np.float32)
        pixels = pixels / max(1.0, float(pixels.max()))  # as the network was trained: the brightest is 1
        image = ((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)[None].astype(np.float32)
        answer = self._session.run(None, {self._session.get_inputs()[0].name: image})[0]
        small = Image.fromarray(answer[0, 0].astype(np.float32))
        return np.clip(np.asarray(small.resize(photo.size, Image.Resampling.BILINEAR)), 0, 1)
