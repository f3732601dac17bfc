"""The jobs that a command is given: a photo with its regions, bundled examples, or samples of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..job import InputError, Job
from .options import REGIONS, MastOptions, Overwrite, Quiet, Region, RunOptions, option


class NamedJob(NamedTuple):
    name: str
    job: Job


@dataclass(frozen=True)
class JobOptions:
    """A photo with its regions, bundled examples, or samples of a benchmark."""

    photo: Annotated[
        Path | None, typer.Argument(help="The photo; or give --examples or --manifest instead.")
    ] = None
    region: Region = field(default_factory=list)
    examples: Annotated[
        str | None, option(REGIONS, "NAMES", "Bundled cases, with commas between them; or all.")
    ] = None
    manifest: Annotated[Path | None, option(REGIONS, "FILE", "A benchmark's manifest.jsonl.")] = None
    limit: Annotated[
        int | None, option(REGIONS, "N", "So many of the manifest's samples, spread evenly.", min=1)
    ] = None

    @cached_property
    def jobs(self) -> list[NamedJob]:
        """The jobs asked for, in one of three ways."""
        ways = [self.photo is not None, self.examples is not None, self.manifest is not None]
        if sum(ways) != 1:
            raise InputError(
                "give a photo with -r MASK=STYLE, or --examples NAMES, or --manifest FILE: one of them"
            )
        if self.region and self.photo is None:
            raise InputError("-r belongs to a photo; --examples and --manifest bring their own regions")
        if self.limit is not None and self.manifest is None:
            raise InputError("--limit belongs to --manifest")
        if self.photo is not None:
            from ..regions.specs import parse_region

            if not self.region:
                raise InputError("no region given; add -r MASK=STYLE (or rest=STYLE for the whole photo)")
            return [NamedJob(self.photo.stem, Job(self.photo, tuple(map(parse_region, self.region))))]
        return self._bundled() if self.examples is not None else self._samples()

    def _bundled(self) -> list[NamedJob]:
        from ..examples import case_job, examples_folder, load_cases

        folder = examples_folder()
        cases = {case["name"]: case for case in load_cases(folder)}
        assert self.examples is not None
        names = list(cases) if self.examples == "all" else self.examples.split(",")
        for name in names:
            if name not in cases:
                near = get_close_matches(name, cases, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InputError(
                    f"--examples: no case is called {name!r}{hint} (there are {', '.join(cases)})"
                )
        return [NamedJob(name, case_job(cases[name], folder)) for name in names]

    def _samples(self) -> list[NamedJob]:
        from ..analysis.maps import spread
        from ..bench.data.manifest import read

        assert self.manifest is not None
        samples = read(self.manifest).samples
        chosen = range(len(samples)) if self.limit is None else spread(len(samples), self.limit)
        return [NamedJob(samples[i].id, samples[i].job()) for i in chosen]

    @property
    def inputs(self) -> list[Path]:
        """Every file the jobs read."""
        return [path for named in self.jobs for path in files_of(named.job)]

    def only(self, what: str) -> NamedJob:
        """The one job; what: why there is to be just one."""
        if len(self.jobs) != 1:
            raise InputError(f"{what}; {len(self.jobs)} jobs were given, choose one")
        return self.jobs[0]


@dataclass(frozen=True, kw_only=True)
class PaintOptions:
    """Jobs, how MAST paints them, and what becomes of what is there already."""

    jobs: JobOptions
    overwrite: Overwrite = False
    quiet: Quiet = False
    tuned: MastOptions
    run: RunOptions


def files_of(job: Job) -> list[Path]:
    """Every file a job reads."""
    from ..regions.parts import split_part

    given = [job.content, *(f for r in job.regions for f in (r.style, r.mask, r.style_mask) if f is not None)]
    return [split_part(str(file))[0] for file in given]
