"""The engine of diffusion methods: invert content and styles, denoise under the method's control, decode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from ..backbone.backbone import Backbone
from ..core import ddim
from ..core.masks import check_survival, vanished
from ..core.windows import Windows
from ..features.cache import Cache, storage
from ..features.library import Library
from ..features.recording import available_memory, bytes_needed
from ..images import describe, to_array, to_tensor, work_size
from ..job import InputError, Progress, Settings
from ..methods.method import DiffusionMethod, Reference, Scene
from ..methods.windowed import WindowedScene
from .apart import sample_apart
from .compose import at_photo_size, keep_surroundings
from .inputs import JobInputs, composited
from .levels import level_sizes, refined_steps, taken_up
from .prepare import Prepared, PreparedStyle, prepare
from .run import Run, settled_size, size_notes
from .windows import settled_windows, window_notes, windows_on

FEW_CELLS = 16  # of the finest controlled grid: a region below that shows hardly any style

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
        """Without regions there is nothing that a smaller picture could lend, nor where none is left of
        them.
        """
        size = settled_size(settings, inputs, self.backbone.native_size)
        settings = settings.with_(size=size, coarse=settings.coarse if inputs.job.regions else "off")
        canvas = work_size(*inputs.photo.size, size, self.stride, settings.fit)[1]
        windows = settled_windows(settings, self.method, self.backbone, canvas, len(inputs.styles))
        settings = settings.with_(windows=windows)
        smaller = (self._at(inputs, settings, size) for size in self._levels(settings)[:-1])
        first = next((here.settings.size for here in smaller if self._worth_painting(here)), "off")
        return settings.with_(coarse=first)

    def _at(self, inputs: JobInputs, settings: Settings, size: int) -> Prepared:
        """A job at the size of one of its levels."""
        return prepare(inputs, settings.with_(size=size), self.stride)

    def _worth_painting(self, ready: Prepared) -> bool:
        """Whether a level has any region left, and every style mask a key."""
        if len(self._lost(ready)) == len(ready.inputs.names):
            return False
        try:
            return all(bool(self._part_used(style)) for style in ready.styles)
        except InputError:
            return False

    def _lost(self, ready: Prepared) -> list[str]:
        """The regions that vanish on the coarsest controlled grid."""
        masks = ready.masks_on(min(self._grids(self._latent(ready))))
        return [name for name, mask in zip(ready.inputs.names, masks, strict=True) if vanished(mask)]

    def _levels(self, settings: Settings) -> list[int]:
        """The sizes to paint at, the last one being the settings'."""
        assert isinstance(settings.size, int)
        return level_sizes(settings.size, self.backbone.native_size, settings.coarse, settings.refine)

    def notes(self, ready: Prepared) -> list[str]:
        """Levels, sizes, regions too small to show their style, and what the method has to say."""
        found = size_notes(ready)
        settings, inputs = ready.settings, ready.inputs
        sizes = self._levels(settings)
        if settings.coarse != "off":
            found.append(f"painted coarse to fine: {', '.join(map(str, sizes))} px")
        for size, above in pairwise(sizes):
            found += [
                f"{name}: too small for the {size} px level, so it is painted from {above} px on only; a "
                f"larger --coarse shows more of its style"
                for name in self._lost(self._at(inputs, settings, size))
            ]
        found += window_notes(ready, self._windows(ready), self.method, self.backbone)
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
            here = ready if size == sizes[-1] else self._at(ready.inputs, settings, size)
            part = whole if below is None else whole.clean_part(refined_steps(settings.refine, len(whole)))
            told = replace(run, level=level, levels=len(sizes))
            scene, encoding = self._invert(here, told, part)
            pictures = [] if below is None else self._enlarged(latents, below, here)
            told.stages.done("invert", encode=encoding)
            latents = self._denoise(here, told, scene, pictures)
            told.stages.done("denoise")
            below = here
            del scene  # and with it the level's features, before the next one's are recorded
        parts = [self._finish(ready, latent) for latent in latents]
        run.stages.done("decode")
        return parts

    def _denoise(self, ready: Prepared, run: Run, scene: Scene, pictures: Sequence[Tensor]) -> list[Tensor]:
        """The latents of a level; pictures: clean latents (1, c, h, w) of the level below, at this size."""
        inputs, method, backbone, schedule = ready.inputs, self.method, self.backbone, scene.schedule
        apart = composited(method, inputs)
        scenes_count = len(inputs.styles) if apart else 1
        total = scenes_count * method.reported_steps(schedule) * scene.passes
        done, steps = 0, 0
        # Between the windows of the first step there is no estimate yet: the picture taken up, or the photo.
        clean = pictures[0] if pictures else scene.content.trajectory.latents[:1]
        seen = scene.content.trajectory.noise, clean

        def tell(step: int) -> None:
            nonlocal done
            done += 1
            if run.on_step is not None:
                t, (latent, x0) = schedule.timesteps[step], seen
                show = lambda: np.asarray(keep_surroundings(self._finish(ready, x0), inputs, run.settings))
                run.on_step(Progress("denoise", done, total, t, latent, show, run.level, run.levels))

        def after(step: int, latent: Tensor, x0: Tensor) -> Tensor | None:
            nonlocal steps, seen
            steps, seen, changed = steps + 1, (latent, x0), None
            if run.on_step_end is not None:
                t = schedule.timesteps[step]
                answer = run.on_step_end(backbone, steps - 1, t, {"latents": latent})
                changed = None if answer is None else answer.get("latents")
            tell(step)
            return changed

        scene.on_window = tell
        whole = method.family == "global-single"
        scenes = [scene.alone(i, whole) for i in range(len(inputs.styles))] if apart else [scene]
        for one, clean in zip(scenes, pictures, strict=False):
            one.taken_up = taken_up(clean, one)
        return sample_apart(method, scenes, after) if apart else [method.sample(scene, after)]

    def _finish(self, ready: Prepared, latent: Tensor) -> Image.Image:
        picture = self.backbone.decode(latent, self._windows(ready))
        return at_photo_size(picture, ready.inner, ready.inputs.photo)

    def _enlarged(self, latents: Sequence[Tensor], below: Prepared, here: Prepared) -> list[Tensor]:
        """Pictures of a level, as clean latents of the next one."""
        found = []
        for latent in latents:
            width, height = below.inner
            decoded = to_array(self.backbone.decode(latent, self._windows(below)))[:height, :width]
            image = to_tensor(Image.fromarray(decoded), here.inner, here.canvas)
            found.append(self.backbone.encode(image, self._windows(here)))
        return found

    def _latent(self, ready: Prepared) -> Grid:
        stride = self.backbone.latent_stride
        return ready.canvas[1] // stride, ready.canvas[0] // stride

    def _windows(self, ready: Prepared) -> Windows | None:
        """Those that a level is painted in; None where it is painted whole."""
        return windows_on(self._latent(ready), ready.settings, self.backbone)

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
        windows = self._windows(ready)
        dtype = storage(settings.feature_dtype)
        # The photo in as many windows as there are, each style in one of its own.
        sizes = [latent] if windows is None else [windows.size] * len(windows)
        sizes += [part["latent"] for part in parts]
        wanted = [wants[0]] * (len(sizes) - len(parts)) + wants[1:]
        needed = sum(
            bytes_needed(backbone.sites, size, len(schedule), want, dtype)
            for size, want in zip(sizes, wanted, strict=True)
        )
        in_memory = settings.features == "memory" or (
            settings.features == "auto" and needed < available_memory() // 2
        )
        store = (run.cache or Cache()) if settings.cache else None
        library = Library(backbone, schedule, settings.inversion == "refined", dtype, store, in_memory)
        seen_in = [windows or library.whole(ready.image), *map(library.whole, images[1:])]

        # A picture that is used twice is inverted once; count its passes once, too.
        first = {
            library.feature_key(library.key(image, whole), want): (image, want, whole)
            for image, want, whole in zip(images, wants, seen_in, strict=True)
        }
        total, done = 0, 0
        before: set[str] = set()
        for image, want, whole in first.values():
            total += library.passes_for(image, want, before, whole)
            before.add(library.key(image, whole))

        def on_pass(step: int) -> None:
            nonlocal done
            done += 1
            if run.on_step is not None:
                t, out_of = schedule.timesteps[step], max(total, done)
                run.on_step(Progress("invert", done, out_of, t, None, None, run.level, run.levels))

        names = [describe(ready.inputs.job.content, "photo"), *[style.given.name for style in ready.styles]]
        found = [
            library.look_up_in(
                whole, image, want, on_pass, f"{Path(name).name} {image.shape[-1]}x{image.shape[-2]}"
            )
            for image, want, name, whole in zip(images, wants, names, seen_in, strict=True)
        ]
        if library.hits:
            run.notes.append(f"{library.hits} of {len(first)} pictures were inverted in an earlier run")
        styles = [
            Reference(trajectory, sources[0], **part)
            for (trajectory, sources), part in zip(found[1:], parts, strict=True)
        ]
        masks = {
            grid: (ready.masks_on(grid) * ready.inputs.strengths).to(backbone.device)
            for grid in self._grids(latent)
        }
        trajectory, sources = found[0]
        if windows is None:
            content = Reference(trajectory, sources[0], latent=latent)
            return Scene(backbone, schedule, content, styles, masks, latent), library.encoding
        views = [
            Reference(trajectory.seen_in(windows, i), source, latent=windows.size)
            for i, source in enumerate(sources)
        ]
        content = Reference(trajectory, latent=latent)
        scene = WindowedScene(
            backbone, schedule, content, styles, masks, latent, windows=windows, views=views
        )
        return scene, library.encoding
