"""`stylize`: the paper's overview figure as a function.

prepare -> invert content and styles -> start from regional AdaIN -> denoise under the method's control ->
decode.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.device import resolve_device
from ..backbone.load import load
from ..features.cache import Cache, storage
from ..features.library import Library
from ..features.recording import available_memory, bytes_needed
from ..job import PRESETS, InputError, Job, OnStep, Progress, Result, Settings
from ..methods import METHODS, Mast, Method, Reconstruct, Reference, Scene, make
from ..methods.feedforward.network import FeedForward
from ..methods.method import OnDenoise
from ..methods.together import sample_together, worth_it
from ..regions.masks import without_masks
from .compose import apart, at_photo_size, check_parts, join, kept, recomposite
from .feedforward import paint
from .prepare import Prepared, prepare
from .provenance import of_model, provenance

__all__ = ["brings_networks", "bytes_on", "default_method", "default_settings", "recomposite", "stylize"]

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
    kin = "mast" if issubclass(METHODS.get(name, Method), Mast) else name
    own = backbone.defaults.get(kin, {})
    return make(name, **{**own, **{key: value for key, value in options.items() if value is not None}})


def brings_networks(name: str) -> bool:
    """Whether the method of this name needs no diffusion model."""
    return issubclass(METHODS.get(name, Method), FeedForward)


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
    photo. A method that knows one style only runs once per region, and its pictures are composited. One that
    brings its own networks looks at nothing of the backbone but its device.
    """
    clock = _Stages()
    if isinstance(method, str) and brings_networks(method):
        method = make(method)
    if isinstance(method, FeedForward) and job.regions:
        device = backbone.device if isinstance(backbone, Backbone) else resolve_device("auto")
        return paint(job, method, settings or Settings(), device, on_step)
    if not isinstance(backbone, Backbone):
        backbone = load(backbone)
    settings = settings or default_settings(backbone)
    if isinstance(method, str):
        method = default_method(backbone, method)
    if not job.regions:
        method = Reconstruct()
    _ = backbone.fingerprint  # reads every weight, once per model: part of loading it
    clock.done("load")

    given = without_masks(job) if method.auto else job
    ready = prepare(given, backbone, settings)
    if given is not job:
        ready.notes.clear()
    if apart(method):
        check_parts(ready.full_masks, settings)
    schedule = backbone.schedule(settings.steps)
    clock.done("prepare")

    scene, encoding = _invert(ready, backbone, method, settings, schedule, on_step, cache)
    clock.done("invert", encode=encoding)

    runs = len(job.regions) if apart(method) else 1
    done, total = 0, runs * method.moves(schedule)

    def finish(latent: Tensor) -> Image.Image:
        return at_photo_size(backbone.decode(latent), ready.inner, ready.photo)

    def after(step: int, latent: Tensor, x0: Tensor) -> Tensor | None:
        nonlocal done
        done, changed = done + 1, None
        if callback_on_step_end is not None:
            answer = callback_on_step_end(backbone, done - 1, schedule.timesteps[step], {"latents": latent})
            changed = None if answer is None else answer.get("latents")
        if on_step is not None:
            show = lambda: np.asarray(kept(finish(x0), ready.photo, ready.full_masks, settings))
            on_step(Progress("denoise", done, total, schedule.timesteps[step], latent, show))
        return changed

    if apart(method):
        scenes = [scene.alone(i, method.family == "global-single") for i in range(len(job.regions))]
        latents = _sample_apart(method, scenes, after)
    else:
        latents = [method.sample(scene, after)]
    clock.done("denoise")

    parts = [finish(latent) for latent in latents]
    if apart(method):
        image = join(parts, ready.photo, ready.full_masks, job, settings)
    else:
        image = kept(parts.pop(), ready.photo, ready.full_masks, settings)
    clock.done("decode")
    record = provenance(job, of_model(backbone), method, settings, ready.photo, ready.full_masks)
    return Result(image, record, clock.seconds, ready.notes, tuple(parts))


def _sample_apart(method: Method, scenes: Sequence[Scene], after: OnDenoise) -> list[Tensor]:
    """The latents of a single-style method, a region at a time or, where it pays, in one batch."""
    if worth_it(method, scenes):
        return list(sample_together(method, scenes, after).split(1))
    return [method.sample(scene, after) for scene in scenes]


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
