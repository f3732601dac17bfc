"""mast stylize PHOTOS --job JOB.toml -o DIR: many photos, one model, and what failed told at the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ..files import check_output, check_outputs
from ..job import InputError, Job, OnStep, Progress, Settings
from .console import console, duration, note, say, visible
from .given_jobs import files_of
from .outputs import Outputs

if TYPE_CHECKING:
    import torch

    from ..backbone.backbone import Backbone
    from ..methods import Method
    from ..pipeline.batch import BatchItem, BatchOutcome
    from .finding import InFoundRegions
    from .wanted import Wanted


@dataclass(frozen=True)
class BatchPlan:
    """The photos to paint and their jobs, and those that have none: their masks are missing, for one."""

    folder: Path
    items: list[BatchItem]
    jobs: list[Job]
    refused: list[BatchOutcome]

    def check(self, files: Outputs) -> None:
        """Refuses what only a single picture can have, and a folder that is none."""
        if files.record is None:
            raise InputError("--no-metadata: a batch knows finished pictures by their records; leave it out")
        if files.preview is not None:
            raise InputError("--preview-every: a preview is of one picture; leave it out for several photos")
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: this is no folder; give one for the pictures with -o")


class Machine(NamedTuple):
    """What paints: the model, the method, its settings, and where."""

    backbone: Backbone | None
    method: Method
    settings: Settings
    device: torch.device


def planned(want: Wanted, folder: Path | None) -> BatchPlan:
    """The job of every photo; where none has any, the first one's error is raised."""
    from ..images import OUTPUTS
    from ..pipeline.batch import BatchOutcome, batch_items

    if folder is None or (folder.suffix.lower() in OUTPUTS and not folder.is_dir()):
        what = "this is a folder" if want.photos[0].is_dir() else "this is one of several photos"
        raise InputError(
            f"{want.photos[0]}: {what}; give the path of the photo, or with -o a folder for the pictures"
        )
    jobs: dict[BatchItem, Job] = {}
    refused: list[BatchOutcome] = []
    first: InputError | None = None
    for item in batch_items(want.all_photos, folder, want.output.suffix if want.output else ".png"):
        try:
            jobs[item] = want.job(item.photo)
        except InputError as error:
            first = first or error
            refused.append(BatchOutcome(item, "failed", str(error), True))
    if not jobs and first is not None:
        raise first
    return BatchPlan(folder, list(jobs), list(jobs.values()), refused)


def paint_batch(
    plan: BatchPlan,
    found: InFoundRegions | None,
    machine: Machine,
    wanted: Outputs,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Paints what was planned; exit code 2 where something that was given failed, 1 where anything else did.

    found: finds the regions of each photo, where it is to. wanted: what to write beside a picture.
    """
    from ..pipeline.batch import stylize_batch

    if found is not None:
        found.prepare(item.output for item in plan.items)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{plan.folder}: cannot be made ({error.strerror}); choose another -o") from error
    check_output(plan.items[0].output, True, None)
    jobs = dict(zip(plan.items, plan.jobs, strict=True))
    outcomes, notes = list(plan.refused), Counter[str]()

    def beside(item: BatchItem) -> Outputs:
        regions = len(wanted.masks) and len(jobs[item].regions)
        return Outputs.of(item.output, regions, True, wanted.sheet is not None, regions > 0, 0)

    def job_of(item: BatchItem) -> Job:
        if found is not None:
            jobs[item], said = found.job(jobs[item], item.output)
            notes.update(said)
        if not item.output.exists():
            files = beside(item)
            check_outputs([p for p in (files.sheet, *files.masks) if p], files_of(jobs[item]), overwrite)
        return jobs[item]

    with _bars(plan.items, quiet) as (on_step, on_photo):
        try:
            machinery = (machine.backbone, machine.method, machine.settings, on_step, machine.device)
            for outcome in stylize_batch(plan.items, job_of, *machinery, overwrite):
                if outcome.result is not None:
                    files = beside(outcome.item)
                    files.write_extras(outcome.result)
                    notes.update([*outcome.result.notes, *files.failed])
                outcomes.append(outcome)
                on_photo(outcome)
        except KeyboardInterrupt:
            total = len(plan.items) + len(plan.refused)
            say(f"{len(outcomes)} of {total} photos are done; the same command goes on with the others")
            raise
    _report(outcomes, notes, quiet, as_json)


def _report(outcomes: Sequence[BatchOutcome], notes: Counter[str], quiet: bool, as_json: bool) -> None:
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    counts = {state: sum(one.state == state for one in outcomes) for state in ("made", "kept", "failed")}
    for text, count in [] if quiet else notes.items():
        note(text if len(outcomes) == 1 else f"{text} ({count} photo{'s' * (count > 1)})")
    if as_json:
        listed = [
            {
                "photo": str(one.item.photo),
                "output": str(one.item.output),
                "state": one.state,
                "reason": one.reason,
                "seconds": one.seconds,
            }
            for one in outcomes
        ]
        print(json.dumps({"pictures": listed, **counts, "notes": dict(notes)}))
    for one in failed:
        say(("failed:", "bold red"), f" {one.item.photo}: {one.reason}")
    if not quiet:
        say(f"{counts['made']} made, {counts['kept']} were there already, {counts['failed']} failed")
    if failed:
        raise typer.Exit(2 if all(one.bad_input for one in failed) else 1)


@contextmanager
def _bars(items: Sequence[BatchItem], quiet: bool) -> Iterator[tuple[OnStep, Callable[[BatchOutcome], None]]]:
    """A bar for all photos and one for the picture in the making, where there is a terminal; and a line for
    every photo. Yields what is told of steps and of photos.
    """
    done: list[Any] = []

    def told(outcome: BatchOutcome) -> None:
        done.append(outcome)
        if not quiet:
            what = {"made": duration(outcome.seconds), "kept": "was there", "failed": "failed"}[outcome.state]
            say(f"{len(done)}/{len(items)}  {outcome.item.output}  ({what})")

    if quiet or not console.is_terminal:
        yield lambda step: None, told
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from ..pipeline.progress import stage_name

    label = TextColumn("{task.description}", markup=False)
    with Bars(label, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console) as bars:
        every = bars.add_task("photos", total=len(items))
        current = bars.add_task("", total=None)

        def on_step(step: Progress) -> None:
            name = visible(items[min(len(done), len(items) - 1)].photo.name)
            bars.update(
                current, description=f"{name}: {stage_name(step)}", completed=step.done, total=step.total
            )

        def on_photo(outcome: BatchOutcome) -> None:
            told(outcome)
            bars.update(every, completed=len(done))

        yield on_step, on_photo
