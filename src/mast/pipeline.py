"""`stylize`: the paper's overview figure as a function.

prepare -> invert content and styles -> start from regional AdaIN -> denoise under the method's control ->
decode.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import Tensor

from .backbone.backbone import Backbone
from .backbone.load import load
from .features.bank import available_memory, bytes_needed
from .features.cache import Cache, storage
from .features.library import Library
from .images import to_array
from .job import PRESETS, InputError, Job, OnStep, Progress, Result, Settings
from .methods import METHODS, Mast, Method, Reconstruct, Reference, Scene, make
from .prepare import Prepared, prepare
from .provenance import provenance

FEATHER = (
    3.0  # pixels over which an exact surrounding meets the repainted region, per 512 pixels of the photo
)

StepEnd = Callable[[Any, int, int, dict[str, Any]], "dict[str, Any] | None"]
"""diffusers' callback: (backbone, step, timestep, {"latents": z}); what it returns under "latents" goes on.
"""


def default_settings(backbone: Backbone, **changes: Any) -> Settings:
    """The preset that the model works best with ("paper" unless it says otherwise), with some settings
    changed.
    """
    name = backbone.defaults.get("preset", "paper")
    if name not in PRESETS:
        raise InputError(
            f"{backbone.name}: its defaults name the preset {name!r}; there are {', '.join(PRESETS)}"
        )
    preset = PRESETS[name]
    return Settings(**preset).with_(**changes)


def default_method(backbone: Backbone, name: str = "mast", **options: Any) -> Method:
    """A method with the options the model works best with, with some of them changed."""
    own = backbone.defaults.get("mast", {}) if issubclass(METHODS.get(name, Method), Mast) else {}
    return make(name, **{**own, **{key: value for key, value in options.items() if value is not None}})


def stylize(
    job: Job,
    backbone: Backbone | str = "preview",
    method: Method | str = "mast",
    settings: Settings | None = None,
    on_step: OnStep | None = None,
    callback_on_step_end: StepEnd | None = None,
    cache: Cache | None = None,
) -> Result:
    """Repaints every region of the job's photo in its style.

    backbone: what `load` returns, or a name for it. method: an object, or a name. settings: the model's own
    preset if None.
    on_step: told of every U-Net pass; raising ends the run. A job without regions gives the reconstructed
    photo.
    """
    clock = _Stages()
    if not isinstance(backbone, Backbone):
        backbone = load(backbone)
    settings = settings or default_settings(backbone)
    if isinstance(method, str):
        method = default_method(backbone, method)
    if not job.regions:
        method = Reconstruct()
    clock.done("load")

    ready = prepare(job, backbone, settings)
    schedule = backbone.schedule(settings.steps)
    clock.done("prepare")

    scene, encoding = _invert(ready, backbone, method, settings, schedule, on_step, cache)
    clock.done("invert", encode=encoding)

    def after(step: int, latent: Tensor, x0: Tensor) -> Tensor | None:
        done, changed = len(schedule) - step, None
        if callback_on_step_end is not None:
            answer = callback_on_step_end(backbone, done - 1, schedule.timesteps[step], {"latents": latent})
            changed = None if answer is None else answer.get("latents")
        if on_step is not None:
            show = lambda: finish(x0, backbone, ready, settings)
            on_step(Progress("denoise", done, len(schedule) - 1, schedule.timesteps[step], latent, show))
        return changed

    latent = method.sample(scene, after)
    clock.done("denoise")

    image = Image.fromarray(finish(latent, backbone, ready, settings))
    clock.done("decode")
    return Result(image, provenance(job, backbone, method, settings, ready), clock.seconds, ready.notes)


def _invert(
    ready: Prepared,
    backbone: Backbone,
    method: Method,
    settings: Settings,
    schedule: Any,
    on_step: OnStep | None,
    cache: Cache | None,
) -> tuple[Scene, float]:
    """Content and styles as references: trajectories and features, from the cache where they are known."""
    wants = [method.content_features, *[method.style_features] * len(ready.styles)]
    images = [ready.image, *[style.image for style in ready.styles]]
    dtype = storage(settings.feature_dtype)
    needed = sum(
        bytes_needed(backbone.sites, size, len(schedule), want, dtype)
        for size, want in zip([ready.latent, *[style.latent for style in ready.styles]], wants, strict=True)
    )
    in_memory = settings.features == "memory" or (
        settings.features == "auto" and needed < available_memory() // 2
    )
    store = (cache or Cache()) if settings.cache else None
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
        if on_step is not None:
            on_step(Progress("invert", done, max(total, done), schedule.timesteps[step]))

    found = [library.look_up(image, want, on_pass) for image, want in zip(images, wants, strict=True)]
    if library.hits:
        ready.notes.append(f"{library.hits} of {len(first)} pictures were inverted in an earlier run")
    content, *styles = [Reference(trajectory, source) for trajectory, source in found]
    for reference, style in zip(styles, ready.styles, strict=True):
        reference.keep, reference.weight, reference.latent = style.keep, style.weight, style.latent
    content.latent = ready.latent
    return Scene(backbone, schedule, content, styles, ready.masks, ready.latent), library.encoding


def finish(latent: Tensor, backbone: Backbone, ready: Prepared, settings: Settings) -> np.ndarray:
    """Decodes a latent to (H, W, 3) uint8 at the photo's own size; exact surroundings are put back."""
    array = to_array(backbone.decode(latent))[: ready.inner[1], : ready.inner[0]]
    picture = Image.fromarray(array)
    if picture.size != ready.photo.size:
        picture = picture.resize(ready.photo.size, Image.Resampling.LANCZOS)
    if settings.keep_unassigned == "exact":
        picture = Image.composite(picture, ready.photo, _repainted(ready.full_masks))
    return np.asarray(picture)


def _repainted(masks: Tensor) -> Image.Image:
    """How much of each pixel the regions repaint, 0 outside all of them, rising over a few pixels inside."""
    cover = (masks.sum(0).clamp(0, 1) * 255).round().byte().numpy()
    radius = FEATHER * max(cover.shape) / 512
    soft = np.asarray(Image.fromarray(cover).filter(ImageFilter.GaussianBlur(radius)), np.float32)
    return Image.fromarray(np.minimum(np.clip(2 * soft - 255, 0, 255).round().astype(np.uint8), cover))


class _Stages:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def done(self, stage: str, **within: float) -> None:
        """Ends a stage; parts of it that count as stages of their own are taken out."""
        now = time.perf_counter()
        self.seconds |= {name: round(part, 3) for name, part in within.items()}
        self.seconds[stage] = round(now - self.last - sum(within.values()), 3)
        self.last = now


def bytes_on(device: torch.device) -> int:
    """Peak memory so far: of the GPU where there is one, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows keeps no such count
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
