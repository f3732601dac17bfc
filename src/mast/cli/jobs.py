"""What `mast analyze` and `mast figure` share: which jobs, which model, which settings, and one set of
options for all of it.

Other commands are imported where they are used: `app` imports them all, in an order of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.markup import escape

from ..images import read_mask, read_rgb, split_colour
from ..job import PRESETS, InputError, Job, Settings
from ..regions.specs import parse_region

if TYPE_CHECKING:
    from ..backbone.backbone import Backbone


class NamedJob(NamedTuple):
    name: str
    job: Job


@dataclass(frozen=True)
class JobOptions:
    """The options of every command that runs jobs; see `with_request`."""

    photo: Annotated[
        Path | None, typer.Argument(help="The photo; or give --examples or --manifest instead.")
    ] = None
    region: Annotated[
        list[str], typer.Option("-r", "--region", help="MASK=STYLE, MASK=STYLE@0.7, or =STYLE.")
    ] = field(default_factory=list)
    examples: Annotated[
        str | None, typer.Option(help="Bundled cases by name, with commas between them; or all.")
    ] = None
    manifest: Annotated[Path | None, typer.Option(help="A benchmark's manifest.jsonl.")] = None
    limit: Annotated[
        int | None, typer.Option(min=1, help="Take so many of the manifest's samples, spread evenly.")
    ] = None
    model: Annotated[str, typer.Option(help="preview, a hub id, a folder or a checkpoint file.")] = "preview"
    preset: Annotated[
        str | None, typer.Option(help="paper (50 steps) or fast; the model's own if not given.")
    ] = None
    steps: Annotated[int | None, typer.Option(help="Timesteps of the schedule.")] = None
    size: Annotated[int | None, typer.Option(help="Longer side at which the model works.")] = None
    lam: Annotated[float | None, typer.Option(help="Lambda, content anchoring (paper: 0.2).")] = None
    pi: Annotated[float | None, typer.Option(help="pi*, style mass in a full region (paper: 0.9).")] = None
    tau: Annotated[str | None, typer.Option(help="A,B,C coefficients, or one fixed factor.")] = None
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Keep and use inversions on disk.")] = True
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto"
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False

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
            if not self.region:
                raise InputError("no region given; add -r MASK=STYLE (or =STYLE for the whole photo)")
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
        jobs = [named.job for named in self.jobs]
        given = [job.content for job in jobs]
        given += [f for job in jobs for r in job.regions for f in (r.style, r.mask, r.style_mask) if f]
        return [split_colour(str(file))[0] for file in given]

    @property
    def options(self) -> dict[str, Any]:
        """Of the method."""
        from .stylize import parse_tau

        return {"lam": self.lam, "pi": self.pi, "tau": parse_tau(self.tau)}

    @property
    def changes(self) -> dict[str, Any]:
        """Of the settings."""
        return {"steps": self.steps, "size": self.size, "cache": None if self.cache else False}

    def check(self) -> None:
        """Refuses bad options and bad pictures before a model is loaded."""
        if self.preset is not None and self.preset not in PRESETS:
            raise InputError(f"preset {self.preset!r} is not known; choose one of {', '.join(PRESETS)}")
        Settings().with_(**self.changes)
        from ..methods import make
        from ..regions.masks import read_masks

        make("mast", **self.options)
        for _, job in self.jobs:
            read_masks(job, read_rgb(job.content, "photo").size, [])
            for region in job.regions:
                read_rgb(region.style, "style image")
                if region.style_mask is not None:
                    read_mask(region.style_mask, "style mask")

    def load(self) -> tuple[Backbone, Settings]:
        """The model and the settings; every job is fitted to them once, so that nothing is refused late."""
        from ..backbone.load import load
        from ..pipeline.prepare import prepare
        from ..pipeline.stylize import default_settings

        backbone = load(self.model, self.device)
        given = {k: v for k, v in self.changes.items() if v is not None}
        settings = default_settings(backbone, **{**PRESETS.get(self.preset or "", {}), **given})
        for _, job in self.jobs:
            prepare(job, backbone, settings)
        return backbone, settings

    def announce(self, name: str, index: int) -> None:
        from .app import say

        if not self.quiet and len(self.jobs) > 1:
            say(f"[bold]{escape(name)}[/] ({index + 1} of {len(self.jobs)})")
