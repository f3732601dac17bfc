"""What a run writes: the picture and its record, and beside them previews, masks and a contact sheet.

What is written beside the picture never costs the picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import check_output, check_outputs
from ..job import Job, OnStep, Result
from ..job import Progress as Step
from .given_jobs import files_of

if TYPE_CHECKING:
    from ..pipeline import JobInputs


@dataclass
class Outputs:
    """Every file a run may write; where one beside the picture cannot be written, `failed` says so."""

    picture: Path
    record: Path | None
    sheet: Path | None
    masks: list[Path]
    preview: Path | None
    every: int
    failed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, picture: Path, regions: int, metadata: bool, sheet: bool, masks: bool, every: int) -> Outputs:
        """every: steps between two previews; 0 for none."""
        return cls(
            picture,
            picture.with_suffix(".json") if metadata else None,
            picture.with_suffix(".sheet.png") if sheet else None,
            [picture.with_suffix(f".mask{i + 1}.png") for i in range(regions if masks else 0)],
            picture.with_suffix(".preview.png") if every else None,
            every,
        )

    def check(self, job: Job, overwrite: bool) -> None:
        """Refuses, before any work, what could not be written, or is an input."""
        from ..images import OUTPUTS

        check_output(self.picture, overwrite, OUTPUTS)
        beside = [self.record, self.sheet, self.preview, *self.masks]
        check_outputs([self.picture, *[path for path in beside if path]], files_of(job), overwrite)

    def previews(self, bar: OnStep) -> Previews:
        return Previews(self, bar)

    def write_extras(self, result: Result) -> dict[str, Any]:
        """The masks as used and the contact sheet, from what was read; what was written, for the report."""
        inputs: JobInputs = result.inputs
        extra: dict[str, Any] = {}
        if self.masks:
            written = [
                str(path)
                for path, mask in zip(self.masks, inputs.masks.numpy(), strict=True)
                if self.attempt(path, partial(_save_mask, mask))
            ]
            extra["masks"] = written
        if self.sheet is not None and self.attempt(self.sheet, lambda to: _save_sheet(result, to)):
            extra["contact_sheet"] = str(self.sheet)
        return extra

    def attempt(self, path: Path, write: Callable[[Path], None]) -> bool:
        try:
            write(path)
        except Exception as error:  # the picture is there, and stays
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            self.failed.append(f"{path}: not written ({reason})")
            return False
        return True


@dataclass
class Previews:
    """The current estimate as a file, while a run lasts; gone with its end."""

    outputs: Outputs
    bar: OnStep

    def __enter__(self) -> OnStep:
        return self.on_step

    def __exit__(self, *_: Any) -> None:
        if self.outputs.preview is not None:
            self.outputs.preview.unlink(missing_ok=True)

    def on_step(self, step: Step) -> None:
        self.bar(step)
        path = self.outputs.preview
        if path is None or step.x0 is None or step.done % self.outputs.every or self.outputs.failed:
            return
        show = step.x0
        self.outputs.attempt(path, lambda to: _save_pixels(show(), to))


def _save_pixels(pixels: Any, path: Path) -> None:
    from PIL import Image

    from ..images import save_png

    save_png(Image.fromarray(pixels), path)


def _save_mask(mask: Any, path: Path) -> None:
    _save_pixels((mask * 255).round().astype("uint8"), path)


def _save_sheet(result: Result, path: Path) -> None:
    from ..images import save_png
    from ..sheets import contact_row, sheet

    inputs: JobInputs = result.inputs
    styles = [(style.picture, style.name) for style in inputs.styles]
    row = contact_row(inputs.photo, inputs.masks.numpy(), styles, result.image)
    if inputs.auto:  # nobody has drawn these regions
        del row[1]
    save_png(sheet([row]), path)
