"""One worker: loads its model once, then makes the pictures it is given, one claim at a time.

Nothing here knows of other workers: the lock on a picture (claims.py) is all they share, whether they are
processes of this run, shards on other machines, or a second run on the same folder.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import torch

from ...backbone.device import resolve_device
from ...backbone.load import load
from ...images import portable
from ...job import Cancelled, InputError, OnStep, Result, Settings, mast_version
from ...methods import METHODS
from ...pipeline import default_method, default_settings, engine_of, recomposite, stylize
from ...pipeline.provenance import effective
from ..data.manifest import BenchSample, Manifest, read
from ..variants import Variant, groups
from . import records
from .claims import claimed

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

# As the paper, unless said.
USUAL = {"keep_unassigned": "reconstruct", "size": 512, "coarse": "off", "windows": "off"}

T = TypeVar("T")
Unit: TypeAlias = tuple[str, int]
"""The smallest piece of work: a sample's id, and which group of variants to make of it."""


class DiskFull(Exception):
    """No picture can be written any more; going on would only waste the work."""


@dataclass(frozen=True)
class BenchPlan:
    """All that decides the pictures and where they go; small, and the same for every worker.

    changes: settings that differ from the preset's (or, without one, from the model's own).
    protocol: "paper" where that was asked for; for the record, and for whoever reads the tables.
    threads: of each worker; None takes what torch has. Sums are split among threads, so bits depend on it.
    """

    manifest: Path
    out: Path
    variants: tuple[Variant, ...]
    preset: str | None = None
    changes: dict[str, Any] = field(default_factory=dict)
    model: str = "preview"
    device: str = "auto"
    dtype: str = "auto"
    prediction_type: str | None = None
    threads: int | None = None
    retry_failed: bool = False
    protocol: str | None = None

    @cached_property
    def groups(self) -> list[tuple[Variant, ...]]:
        return groups(self.variants)

    def missing(self, unit: Unit) -> list[Variant]:
        """What of a unit is not done yet."""
        sample, group = unit
        return [v for v in self.groups[group] if not records.is_done(self.out / v.name, sample)]


Status: TypeAlias = Literal["made", "already", "failed", "failed before", "held"]


@dataclass(frozen=True)
class Outcome:
    """What became of one picture. already: it was there; held: another runner is making it."""

    variant: str
    sample: str
    status: Status
    reason: str = ""
    seconds: float = 0.0


class Worker:
    """The methods of a plan, and a loaded diffusion model if any of them needs one.

    device: where this worker computes, if not where the plan says (one of several GPUs).
    on_step: told of every U-Net pass; raising ends the worker.
    """

    def __init__(self, plan: BenchPlan, device: str | None = None, on_step: OnStep | None = None):
        self.plan, self.on_step = plan, on_step
        if plan.threads is not None:
            torch.set_num_threads(plan.threads)
        self.manifest: Manifest = read(plan.manifest)
        self.samples: dict[str, BenchSample] = {sample.id: sample for sample in self.manifest.samples}
        place = device or plan.device
        needed = any(METHODS[group[0].method].needs_backbone for group in plan.groups)
        self.backbone = load(plan.model, place, plan.dtype, plan.prediction_type) if needed else None
        self.device = self.backbone.device if self.backbone is not None else resolve_device(place)
        self.shared: Settings = default_settings(self.backbone, plan.preset, **{**USUAL, **plan.changes})
        # One engine a group: what a method brings is loaded once, and now, while nothing is begun.
        methods = [default_method(self.backbone, g[0].method, **g[0].options) for g in plan.groups]
        self.engines = [engine_of(method, self.backbone, self.device) for method in methods]

    def facts(self) -> dict[str, records.Facts]:
        """run.json of every variant: what its pictures are made from and with."""
        found = {}
        for engine, group in zip(self.engines, self.plan.groups, strict=True):
            method, model = engine.method, engine.record()
            for variant in group:
                facts = {
                    "manifest": {"path": str(self.manifest.path), "sha256": self.manifest.sha256},
                    "variant": variant.name,
                    "method": {"name": method.name, **method.options()},
                    "composite": variant.composite,
                    "settings": effective(variant.settings(self.shared), method),
                    **model,
                    **({} if self.plan.protocol is None else {"protocol": self.plan.protocol}),
                    "threads": torch.get_num_threads(),
                    "mast": mast_version(),
                    "torch": torch.__version__,
                }
                found[variant.name] = portable(facts, self.plan.out / variant.name)
        return found

    def do(self, unit: Unit) -> list[Outcome]:
        """Makes what is missing of a unit and can be claimed; a failure is recorded and is no exception.

        Raises DiskFull, and whatever `on_step` raises.
        """
        return or_full(lambda: self._do(*unit))

    def _do(self, sample: str, group: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        todo: list[Variant] = []
        with ExitStack() as claims:
            for variant in self.plan.groups[group]:
                folder = self.plan.out / variant.name
                status: Status | None = None
                if records.is_done(folder, sample):
                    status = "already"
                elif not claims.enter_context(claimed(folder, sample)):
                    status = "held"
                elif records.is_done(folder, sample):  # its maker finished between the look and the claim
                    status = "already"
                elif not self.plan.retry_failed and (known := records.failures(folder).get(sample)):
                    outcomes.append(Outcome(variant.name, sample, "failed before", known["reason"]))
                    continue
                if status is None:
                    todo.append(variant)
                else:
                    outcomes.append(Outcome(variant.name, sample, status))
            if todo:
                outcomes += self._make(self.samples[sample], group, todo)
        return outcomes

    def _make(self, sample: BenchSample, group: int, todo: list[Variant]) -> list[Outcome]:
        """One run, always with the group's first compositor, and what is to be kept of it.

        So the pictures do not depend on which of a group an earlier run had finished.
        """
        began = time.perf_counter()
        job, first, method = sample.job(), self.plan.groups[group][0], self.engines[group].method
        settings = first.settings(self.shared)
        made, reason = self._try(
            lambda: stylize(job, self.backbone, method, settings, self.on_step, device=self.device)
        )
        outcomes = []
        for variant in todo:
            result, why, strategy = made, reason, variant.composite
            if made is not None and strategy is not None and strategy != first.composite:
                result, why = self._try(partial(recomposite, made, strategy))
            if result is not None:
                why = self._publish(result, variant, sample.id)
            if why:
                folder = self.plan.out / variant.name
                or_full(partial(records.record_failure, folder, sample.id, why))
            seconds, began = time.perf_counter() - began, time.perf_counter()
            outcomes.append(Outcome(variant.name, sample.id, "failed" if why else "made", why, seconds))
        return outcomes

    def _publish(self, result: Result, variant: Variant, sample: str) -> str:
        folder = self.plan.out / variant.name
        (folder / f"{sample}.json").unlink(missing_ok=True)  # a record without its picture: a killed run's
        _, reason = self._try(lambda: records.publish(result, self.plan.out, variant.name, sample))
        if not reason:
            or_full(lambda: records.forget_failure(folder, sample))
        return reason

    def _try(self, act: Callable[[], Any]) -> tuple[Any, str]:
        """What an act gives and "", or None and why it failed. A full disk and a wish to stop go through."""
        try:
            return or_full(act), ""
        except (Cancelled, DiskFull):
            raise
        except InputError as error:
            return None, str(error)
        except MemoryError:
            return None, "out of memory; try a smaller --size or --features replay"
        except Exception as error:
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            if "out of memory" in str(error).lower() or "can't allocate memory" in str(error).lower():
                return (
                    None,
                    f"out of memory; try a smaller --size or --features replay ({_first_line(error)})",
                )
            return None, f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def or_full(act: Callable[[], T]) -> T:
    """A full disk is no failure of a sample."""
    try:
        return act()
    except OSError as error:
        if error.errno in FULL:
            where = error.filename or "the output folder"
            raise DiskFull(f"{where}: {error.strerror}") from error
        raise
