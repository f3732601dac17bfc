"""What to paint and how: by the command line and, where there is one, a job file. What the command line says
counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..job import PRESETS, InputError, Job, Region
from .options import RunOptions

if TYPE_CHECKING:
    from ..pipeline.jobfile import JobFile


@dataclass(frozen=True)
class Wanted:
    """photos: as named; styles: paintings without masks. given: the names of the options on the command line;
    regions: those given there, which take the place of the job file's.
    """

    photos: list[Path]
    styles: list[Path]
    file: Path | None
    regions: list[Region]
    auto_given: int | None
    given: set[str]

    @classmethod
    def of(
        cls,
        named: list[Path],
        file: Path | None,
        regions: list[Region],
        auto: int | None,
        given: set[str],
    ) -> Wanted:
        """named: a job file; or photos, with a job file; or a photo and its styles."""
        from ..regions.auto import check_count

        if auto is not None:
            check_count(auto, "--auto")
        photos, styles = named, list[Path]()
        if named[0].suffix.lower() == ".toml":
            if file is not None:
                raise InputError(f"{named[0]} and --job {file}: give one job file")
            if named[1:]:
                raise InputError(
                    f"{named[1]}: a job file names its own photo and styles; for other photos write mast "
                    f"stylize PHOTO... --job {named[0]}"
                )
            photos, file = [], named[0]
        elif file is None:
            photos, styles = named[:1], named[1:]
        if styles and regions:
            raise InputError(
                f"{styles[0]}: give paintings either after the photo, and regions are found for them, or "
                "with -r MASK=STYLE"
            )
        return cls(photos, styles, file, regions or [Region(style) for style in styles], auto, given)

    @property
    def many(self) -> bool:
        """Whether several photos may be meant: then pictures go into a folder."""
        from ..pipeline.batch import is_many

        return len(self.photos) > 1 or any(map(is_many, self.photos))

    @cached_property
    def all_photos(self) -> list[Path]:
        """Every photo that the command line means; none: the job file's own."""
        from ..pipeline.batch import photos_in

        return photos_in(self.photos) if self.photos else []

    @cached_property
    def said(self) -> JobFile | None:
        """What the job file says of its own photo, or of the first one that it can be said of."""
        if self.file is None:
            return None
        first: InputError | None = None
        photos: list[Path | None] = [*self.all_photos] or [None]
        for photo in photos:
            try:
                return self._read(photo)
            except InputError as error:
                first = first or error
        assert first is not None
        raise first

    def _read(self, photo: Path | None) -> JobFile:
        from ..pipeline.jobfile import read_jobfile

        assert self.file is not None
        return read_jobfile(self.file, photo, self.auto_given)

    @property
    def auto(self) -> int | None:
        """How many regions are to be found; None: they have masks."""
        if self.auto_given is not None:
            return self.auto_given
        if len(self.styles) > 1:  # a single one has the whole photo
            return len(self.styles)
        return self.said.auto if self.said is not None and not self.regions else None

    def job(self, photo: Path | None) -> Job:
        """The job of a photo, or of the job file's own; where regions are to be found they have no masks."""
        if self.file is not None and not self.regions:
            return self._read(photo).job
        if photo is None:
            assert self.said is not None
            photo = Path(str(self.said.job.content))
        masked = [region for region in self.regions if region.mask is not None]
        if self.auto is not None and masked:
            raise InputError(f"--auto {self.auto} finds the regions itself; write -r STYLE without a mask")
        if self.auto is not None and len(self.regions) != self.auto:
            raise InputError(
                f"--auto {self.auto}: {len(self.regions)} styles are given; give one for each region with "
                "-r STYLE, objects first, largest first, and the background last"
            )
        return Job(photo, tuple(self.regions))

    @property
    def method(self) -> str | None:
        """The job file's method, unless the command line has one."""
        return None if self.said is None or "method" in self.given else self.said.method

    @property
    def output(self) -> Path | None:
        return None if self.said is None else self.said.output

    def run(self, run: RunOptions) -> RunOptions:
        """The options with the job file's model and preset, where the command line has none."""
        if self.said is None:
            return run
        changes: dict[str, Any] = {}
        if "model" not in self.given:
            changes = {"model": self.said.model, "prediction_type": self.said.prediction_type}
        if "preset" not in self.given:
            changes["preset"] = self.said.settings.get("preset")
        return replace(run, **{key: value for key, value in changes.items() if key not in self.given})

    def settings(self, run: RunOptions, composite: str | None) -> dict[str, Any]:
        """All settings that were given: the job file's, and over them the command line's. A preset of the
        command line takes the place of what the file says of the same settings.
        """
        found = {} if self.said is None else dict(self.said.settings)
        found.pop("preset", None)
        if "preset" in self.given:
            own = PRESETS.get(run.preset or "", {})
            found = {key: value for key, value in found.items() if key not in own}
        found |= run.changes
        found |= {"cache": run.cache} if "cache" in self.given else {}
        return found | ({} if composite is None else {"composite": composite})


def given_by_hand(ctx: typer.Context) -> set[str]:
    """The names of the parameters that stand on the command line; the others have their defaults."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
