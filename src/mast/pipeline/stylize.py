"""`stylize`: the paper's overview figure as a function.

read -> prepare -> one of two engines (diffusion.py, feedforward.py) -> compose -> a record of how.
"""

from __future__ import annotations

import sys
from typing import Any, cast

import torch

from ..backbone.backbone import Backbone
from ..backbone.device import resolve_device
from ..backbone.load import load
from ..features.cache import Cache
from ..job import FOR_PEOPLE, PRESETS, InputError, Job, OnStep, Result, Settings
from ..methods import METHODS, DiffusionMethod, Mast, Method, Reconstruct, make
from ..methods.feedforward.network import FeedForward
from .compose import check_parts, finished
from .diffusion import DiffusionEngine
from .feedforward import FeedForwardEngine
from .inputs import JobInputs, composited, read_job
from .prepare import Prepared, prepare
from .progress import bars, both
from .provenance import provenance
from .run import Engine, Run, StepEnd


def default_settings(backbone: Backbone | None, preset: str | None = None, **changes: Any) -> Settings:
    """The settings of a run: a preset's ("paper", "fast"; None takes the model's own), with some of them
    changed; None leaves a setting as it is. backbone: None for a method that needs no diffusion model.

    Unless "paper" is asked for by name, what no region covers keeps its pixels, and the size is the model's.
    """
    if preset is not None and preset not in PRESETS:
        raise InputError(f"preset {preset!r} is not known; choose one of {', '.join(PRESETS)}")
    own = "paper" if backbone is None else backbone.defaults.get("preset", "paper")
    if own not in PRESETS:
        name = backbone.name if backbone is not None else ""
        raise InputError(f"{name}: its defaults name the preset {own!r}; there are {', '.join(PRESETS)}")
    for_people = {} if preset == "paper" else FOR_PEOPLE
    return Settings(**PRESETS[preset or own], **for_people).with_(**changes)


def default_method(backbone: Backbone | None, name: str = "mast", **options: Any) -> Method:
    """A method with the options the model works best with, with some of them changed."""
    given = {key: value for key, value in options.items() if value is not None}
    if backbone is None or name not in METHODS:
        return make(name, **given)
    kin = "mast" if issubclass(METHODS[name], Mast) else name
    return make(name, **{**backbone.defaults.get(kin, {}), **given})


def engine_of(method: Method, backbone: Backbone | None, device: torch.device | None = None) -> Engine:
    """The engine that a method runs on, loaded. device: for a method without a diffusion model."""
    if method.needs_backbone:
        assert backbone is not None
        return DiffusionEngine(cast(DiffusionMethod, method).for_model(backbone.defaults), backbone)
    where = device or (backbone.device if backbone is not None else resolve_device("auto"))
    return FeedForwardEngine(cast(FeedForward, method), where)


def ready_to_paint(inputs: JobInputs, engine: Engine, settings: Settings) -> Prepared:
    """All that can be refused is refused here, before the first pass."""
    settings = engine.settled(settings, inputs)
    ready = prepare(inputs, settings, engine.stride)
    engine.check(ready)
    if composited(engine.method, inputs):
        check_parts(ready.inputs.masks, settings)
    return ready


def stylize(
    job: Job | JobInputs,
    backbone: Backbone | str | None = "preview",
    method: Method | str = "mast",
    settings: Settings | None = None,
    on_step: OnStep | None = None,
    callback_on_step_end: StepEnd | None = None,
    cache: Cache | None = None,
    device: torch.device | None = None,
    progress: bool = False,
) -> Result:
    """Repaints every region of the job's photo in its style.

    job: or what `read_job` made of it. backbone: what `load` returns, or a name for it; a method that brings
    its own networks looks at nothing of it but its device, and needs none. method: an object, or a name.
    settings: the model's own preset if None. on_step: told of every U-Net pass; raising ends the run.
    progress: a bar for every stage, in a terminal or a notebook.

    A job without regions gives the reconstructed photo. A method that knows one style only runs once per
    region, and its pictures are composited.
    """
    if progress:
        with bars() as bar:
            told = bar if on_step is None else both(bar, on_step)
            return stylize(job, backbone, method, settings, told, callback_on_step_end, cache, device)
    run = Run(settings or Settings(), on_step, callback_on_step_end, cache)
    given = make(method) if isinstance(method, str) else method  # an unknown name is refused here
    regions = job.job.regions if isinstance(job, JobInputs) else job.regions
    if not regions:
        given = method = Reconstruct()
    if not isinstance(backbone, Backbone):
        backbone = load(backbone or "preview") if given.needs_backbone else None
    method = default_method(backbone, method) if isinstance(method, str) else method
    if settings is None:
        run.settings = default_settings(backbone if method.needs_backbone else None)
    engine = engine_of(method, backbone, device)
    run.stages.done("load")

    ready = ready_to_paint(read_job(job, engine.method), engine, run.settings)
    run.settings, inputs = ready.settings, ready.inputs
    run.notes += [*inputs.notes, *engine.notes(ready)]
    run.stages.done("prepare")

    parts = engine.paint(ready, run)
    apart = composited(engine.method, inputs)
    image = finished(parts, inputs, run.settings, apart, engine.method.released)
    record = provenance(inputs, engine.method, engine.record(), run.settings)
    return Result(image, record, run.stages.seconds, run.notes, tuple(parts if apart else ()), inputs)


def bytes_on(device: torch.device) -> int:
    """Peak memory so far: of the GPU where there is one, else of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows keeps no such count
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
