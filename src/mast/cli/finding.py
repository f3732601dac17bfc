"""Segmenters for the commands that find regions: loaded once, and what is downloaded for them said before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..job import Job
from .console import download_bar, say, size_text
from .options import REGIONS, option

if TYPE_CHECKING:
    from PIL import Image

    from ..regions.auto import Divided

COLOURS = "colours"  # the name that stands for doing without a segmenter
Segmenting = Annotated[
    str,
    option(
        REGIONS,
        "NAME",
        "What finds regions: mobile-sam, FILE.py:CLASS for your own, or colours to do without.",
    ),
]


class RegionFinder:
    """Divides photos by a segmenter (its name, or FILE.py:CLASS), which is loaded when it is first needed."""

    def __init__(self, segmenter: str, quiet: bool) -> None:
        self.name, self.quiet = segmenter, quiet
        self._loaded: tuple[Any, Any] | None = (None, None) if segmenter == COLOURS else None

    def load(self) -> tuple[Any, Any]:
        """The segmenter, and the one that says what catches the eye."""
        if self._loaded is None:
            self._loaded = load_segmenter(self.name, "propose", self.quiet), _salience(self.quiet)
        return self._loaded

    def __call__(self, photo: Image.Image, n: int) -> Divided:
        from ..regions.auto import divide

        return divide(photo, n, *self.load())


@dataclass(frozen=True)
class InFoundRegions:
    """Gives jobs masks: N regions are found in the photo, and kept beside the picture that is painted."""

    n: int
    finder: RegionFinder
    overwrite: bool

    def prepare(self, outputs: Iterable[Path]) -> None:
        """Loads the segmenter if it will be needed: what cannot be had fails once, not for every photo."""
        from ..regions.found import regions_folder

        if not all(regions_folder(output).is_dir() for output in outputs):
            self.finder.load()

    def job(self, job: Job, output: Path) -> tuple[Job, list[str]]:
        """The job with the masks of its regions, in their order; and notes on how they were found."""
        from ..regions.found import found_masks, regions_folder

        folder, photo = regions_folder(output), Path(str(job.content))
        masks, notes = found_masks(photo, self.n, folder, self.finder, self.finder.name, self.overwrite)
        regions = [replace(r, mask=str(mask)) for r, mask in zip(job.regions, masks, strict=True)]
        return Job(photo, tuple(regions)), notes


def load_segmenter(name: str, method: str, quiet: bool) -> Any:
    """A segmenter by its name; method: what it must be able to do."""
    if name != "mobile-sam":
        from ..regions.segment import load_own

        return load_own(name, method)
    from ..regions.sam.model import MobileSam

    _announce("mobile-sam")
    with download_bar(quiet) as bar:
        return MobileSam(on_bytes=bar)


def _salience(quiet: bool) -> Any:
    from ..regions.salient import SalientObject

    _announce("u2netp")
    with download_bar(quiet) as bar:
        return SalientObject(on_bytes=bar)


def _announce(name: str) -> None:
    """Says what is going to be downloaded, if anything is: how much, from where, under which licence."""
    from ..weights.registry import known, local, weights_folder

    if local(name) is not None:
        return
    weight = known(name)
    source = weight.sources[-1]
    size = size_text(source.archive_bytes or source.bytes)
    say(f"{name} is not here yet ({weight.about})")
    say(f"  {size} to download: {source.where}; {size_text(source.bytes)} are kept in {weights_folder()}")
    say(f"  licence {weight.licence}; sha256 {source.sha256}")
