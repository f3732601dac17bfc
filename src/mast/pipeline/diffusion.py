"""The engine of diffusion methods: invert content and styles, denoise under the method's control, decode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import controlled
from ..backbone.sites import Site
from ..core import ddim
from ..core.masks import check_survival
from ..features.cache import Cache, storage
from ..features.library import Library
from ..features.recording import available_memory, bytes_needed
from ..images import describe, to_array, to_tensor
from ..job import Progress, Settings
from ..methods.method import DiffusionMethod, InScene, OnDenoise, Reference, Scene
from .compose import at_photo_size, keep_surroundings
from .inputs import JobInputs, composited
from .levels import level_sizes, refined_steps, taken_up
from .prepare import Prepared, PreparedStyle, prepare
from .run import Run, settled_size, size_notes

FEW_CELLS = 16  # of the finest controlled grid: a region below that shows hardly any style
WORKSPACE = 64  # float32 maps at the latent's size and the U-Net's first width that one latent's pass holds

Grid = tuple[int, int]


@dataclass(frozen=True)
class DiffusionEngine:
    """A method and the frozen model that it controls."""

    method: DiffusionMethod
    backbone: Backbone

    def __post_init__(self) -> None:
        _ = self.backbone.fingerprint  # reads every weight, once per model: part of loading it

    @property
    def stride(self) -> int:
        return self.backbone.stride

    def settled(self, settings: Settings, inputs: JobInputs) -> Settings:
        """Without regions there is nothing that a smaller picture could lend."""
        size = settled_size(settings, inputs, self.backbone.native_size)
        coarse = settings.coarse if inputs.job.regions else "off"
        first, *larger = self._levels(settings.with_(size=size, coarse=coarse))
        return settings.with_(size=size, coarse=first if larger else "off")

    def _levels(self, settings: Settings) -> list[int]:
        """The sizes to paint at, the last one being the settings'."""
        assert isinstance(settings.size, int)
        return level_sizes(settings.size, self.backbone.native_size, settings.coarse, settings.refine)

    def notes(self, ready: Prepared) -> list[str]:
        """Levels, sizes, regions too small to show their style, and what the method has to say."""
        found = size_notes(ready)
        settings, inputs = ready.settings, ready.inputs
        if settings.coarse != "off":
            found.append(f"painted coarse to fine: {', '.join(map(str, self._levels(settings)))} px")
        finest = max(site.grid(self._latent(ready)) for site in self.backbone.sites)
        for name, cells in zip(inputs.names, ready.masks_on(finest).sum((1, 2)).tolist(), strict=True):
            if 0 < cells < FEW_CELLS:
                wanted = math.ceil(int(settings.size) * math.sqrt(FEW_CELLS / cells) / 64) * 64
                found.append(
                    f"{name}: only {cells:.1f} cells of the finest controlled grid, so little of its style "
                    f"will show; --size {wanted} would do" + ("" if wanted <= 8192 else ", or a larger mask")
                )
        return found + self.method.model_notes(self.backbone.name, self.backbone.calibrated)

    def check(self, ready: Prepared) -> None:
        """Refuses a region that vanishes at the coarsest controlled grid, and a style mask that leaves no
        key.
        """
        inputs = ready.inputs
        coarsest = min(self._grids(self._latent(ready)))
        sizes = [float(mask.sum()) for mask in inputs.masks]
        check_survival(ready.masks_on(coarsest), coarsest, list(inputs.names), sizes)
        parts = [self._part_used(style) for style in ready.styles]
        self.method.check(self.backbone, self._latent(ready), [part["latent"] for part in parts])

    def record(self) -> dict[str, Any]:
        """What a record says of the model behind a picture."""
        backbone = self.backbone
        name = backbone.name
        known = name == "preview" or not Path(name).exists()
        return {
            "model": {
                "name": name if known else str(Path(name).resolve()),
                "fingerprint": backbone.fingerprint,
            },
            "device": backbone.device.type,
            "dtype": str(backbone.dtype).removeprefix("torch."),
            "prediction_type": backbone.scheduler.config.prediction_type,
            "compiled": backbone.compiled,
        }

    def paint(self, ready: Prepared, run: Run) -> list[Image.Image]:
        """One picture, or one per region for a method that knows one style.

        Above the model's own size, coarse to fine: each level takes up the picture of the level below it.
        """
        backbone, settings = self.backbone, run.settings
        whole = backbone.schedule(settings.steps, settings.clean_end)
        sizes = self._levels(settings)
        latents: list[Tensor] = []
        below: Prepared | None = None
        for level, size in enumerate(sizes):
            here = (
                ready if size == sizes[-1] else prepare(ready.inputs, settings.with_(size=size), self.stride)
            )
            part = whole if below is None else whole.clean_part(refined_steps(settings.refine, len(whole)))
            told = replace(run, level=level, levels=len(sizes))
            scene, encoding = self._invert(here, told, part)
            pictures = [] if below is None else self._enlarged(latents, below, here)
            told.stages.done("invert", encode=encoding)
            latents = self._denoise(here, told, scene, pictures)
            told.stages.done("denoise")
            below = here
        parts = [self._finish(ready, latent) for latent in latents]
        run.stages.done("decode")
        return parts

    def _denoise(self, ready: Prepared, run: Run, scene: Scene, pictures: Sequence[Tensor]) -> list[Tensor]:
        """The latents of a level; pictures: clean latents (1, c, h, w) of the level below, at this size."""
        inputs, method, backbone, schedule = ready.inputs, self.method, self.backbone, scene.schedule
        apart = composited(method, inputs)
        total = (len(inputs.styles) if apart else 1) * method.reported_steps(schedule)
        done = 0

        def after(step: int, latent: Tensor, x0: Tensor) -> Tensor | None:
            nonlocal done
            done, changed = done + 1, None
            t = schedule.timesteps[step]
            if run.on_step_end is not None:
                answer = run.on_step_end(backbone, done - 1, t, {"latents": latent})
                changed = None if answer is None else answer.get("latents")
            if run.on_step is not None:
                show = lambda: np.asarray(keep_surroundings(self._finish(ready, x0), inputs, run.settings))
                run.on_step(Progress("denoise", done, total, t, latent, show, run.level, run.levels))
            return changed

        whole = method.family == "global-single"
        scenes = [scene.alone(i, whole) for i in range(len(inputs.styles))] if apart else [scene]
        for one, clean in zip(scenes, pictures, strict=False):
            one.taken_up = taken_up(clean, one)
        return sample_apart(method, scenes, after) if apart else [method.sample(scene, after)]

    def _finish(self, ready: Prepared, latent: Tensor) -> Image.Image:
        return at_photo_size(self.backbone.decode(latent), ready.inner, ready.inputs.photo)

    def _enlarged(self, latents: Sequence[Tensor], below: Prepared, here: Prepared) -> list[Tensor]:
        """Pictures of a level, as clean latents of the next one."""
        found = []
        for latent in latents:
            width, height = below.inner
            picture = Image.fromarray(to_array(self.backbone.decode(latent))[:height, :width])
            found.append(self.backbone.encode(to_tensor(picture, here.inner, here.canvas)))
        return found

    def _latent(self, ready: Prepared) -> Grid:
        stride = self.backbone.latent_stride
        return ready.canvas[1] // stride, ready.canvas[0] // stride

    def _grids(self, latent: Grid) -> list[Grid]:
        return sorted({latent, *(site.grid(latent) for site in self.backbone.sites)})

    def _part_used(self, style: PreparedStyle) -> dict[str, Any]:
        """What a style mask leaves of its painting, as a `Reference` takes it."""
        stride, device = self.backbone.latent_stride, self.backbone.device
        latent = (style.size[0] // stride, style.size[1] // stride)
        keys = {grid: style.keys_on(grid) for grid in {site.grid(latent) for site in self.backbone.sites}}
        weight = style.mask_on(latent)
        return {
            "latent": latent,
            "keep": {grid: left.to(device) for grid, left in keys.items() if left is not None},
            "weight": None if weight is None else weight.to(device),
        }

    def _invert(self, ready: Prepared, run: Run, schedule: ddim.Schedule) -> tuple[Scene, float]:
        """Content and styles as references: trajectories and features, from the cache where they are known;
        and the seconds that encoding took.
        """
        backbone, method, settings = self.backbone, self.method, run.settings
        latent, parts = self._latent(ready), [self._part_used(style) for style in ready.styles]
        wants = [method.content_features, *[method.style_features] * len(parts)]
        images = [ready.image, *[style.image for style in ready.styles]]
        dtype = storage(settings.feature_dtype)
        needed = sum(
            bytes_needed(backbone.sites, size, len(schedule), want, dtype)
            for size, want in zip([latent, *[part["latent"] for part in parts]], wants, strict=True)
        )
        in_memory = settings.features == "memory" or (
            settings.features == "auto" and needed < available_memory() // 2
        )
        store = (run.cache or Cache()) if settings.cache else None
        library = Library(backbone, schedule, settings.inversion == "refined", dtype, store, in_memory)

        # A picture that is used twice is inverted once; count its passes once, too.
        first = {
            library.feature_key(library.key(image), want): (image, want)
            for image, want in zip(images, wants, strict=True)
        }
        total, done = 0, 0
        before: set[str] = set()
        for image, want in first.values():
            total += library.passes_for(image, want, before)
            before.add(library.key(image))

        def on_pass(step: int) -> None:
            nonlocal done
            done += 1
            if run.on_step is not None:
                run.on_step(
                    Progress(
                        "invert",
                        done,
                        max(total, done),
                        schedule.timesteps[step],
                        None,
                        None,
                        run.level,
                        run.levels,
                    )
                )

        names = [describe(ready.inputs.job.content, "photo"), *[style.given.name for style in ready.styles]]
        found = [
            library.look_up(image, want, on_pass, f"{Path(name).name} {image.shape[-1]}x{image.shape[-2]}")
            for image, want, name in zip(images, wants, names, strict=True)
        ]
        if library.hits:
            run.notes.append(f"{library.hits} of {len(first)} pictures were inverted in an earlier run")
        content = Reference(*found[0], latent=latent)
        styles = [Reference(*seen, **part) for seen, part in zip(found[1:], parts, strict=True)]
        masks = {
            grid: (ready.masks_on(grid) * ready.inputs.strengths).to(backbone.device)
            for grid in self._grids(latent)
        }
        return Scene(backbone, schedule, content, styles, masks, latent), library.encoding


# ------------------------------------------------------------------ the runs of a single-style method


def sample_apart(method: DiffusionMethod, scenes: Sequence[Scene], after: OnDenoise) -> list[Tensor]:
    """The latents of a single-style method, a region at a time or, where it pays, in one batch."""
    if can_share_passes(method, scenes):
        return list(sample_together(method, scenes, after).split(1))
    return [method.sample(scene, after) for scene in scenes]


def can_share_passes(method: DiffusionMethod, scenes: Sequence[Scene]) -> bool:
    """Whether the scenes should, and can, be denoised as one batch.

    On a GPU one pass over N latents costs far less than N passes. On a CPU it costs as much, and the bits of
    a convolution depend on the size of its batch, so there the runs go one by one.
    """
    device = scenes[0].backbone.device
    if len(scenes) < 2 or device.type != "cuda" or not method.shares_passes():
        return False
    h, w = scenes[0].latent
    width = scenes[0].backbone.unet.config.block_out_channels[0]
    return len(scenes) * WORKSPACE * 4 * width * h * w < torch.cuda.mem_get_info(device)[0] // 2


@torch.inference_mode()
def sample_together(
    method: DiffusionMethod, scenes: Sequence[Scene], on_step: OnDenoise | None = None
) -> Tensor:
    """`method.sample` of every scene, in one batch; (N, c, h, w). The scenes share their photo."""
    first, schedule = scenes[0], scenes[0].schedule
    z = torch.cat([s.taken_up.noisy if s.taken_up is not None else method.start(s) for s in scenes])
    for i, to in method.denoising_path(first):
        first.set_step(i)
        for scene in scenes[1:]:
            scene.set_step(i, same_photo=first)
        with controlled(first.backbone.unet, first.backbone.sites, _Each(method, scenes)):
            prediction = first.backbone.predict(z, schedule.timesteps[i])
        z, x0 = ddim.move(z, prediction, schedule.alphas[i], to, schedule.prediction_type)
        z = torch.cat([method.after_step(scene, one) for scene, one in zip(scenes, z.split(1), strict=True)])
        for one, clean in zip(z.split(1), x0.split(1), strict=True):
            if on_step is not None:
                changed = on_step(i, one, clean)
                if changed is not None:
                    one.copy_(changed)
    return z


class _Each:
    """One control per latent of a batch."""

    def __init__(self, method: DiffusionMethod, scenes: Sequence[Scene]):
        self.controls = [InScene(method, scene) for scene in scenes]

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        rows = zip(self.controls, query.split(1), key.split(1), value.split(1), strict=True)
        return torch.cat([control.attend(site, q, k, v) for control, q, k, v in rows])

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        rows = zip(self.controls, branch.split(1), strict=True)
        return torch.cat([control.residual(site, one) for control, one in rows])
