"""What a finished job leaves in its folder beside the picture: contact sheet, mass maps, thumbnail, job file,
and the same as a command line. The folder holds all that `mast replay` and `mast stylize` need, under the
names that the record uses.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..analysis.observe import Observer, Sight
from ..analysis.rows import joint_masses, moments
from ..files import atomic
from ..images import save_png
from ..job import Job, Region, Result
from ..methods import Mast, Method
from ..methods.spec import write_method
from ..pipeline.jobfile import JobFile, write_jobfile
from ..sheets import contact_row, overlay, sheet

PICTURE, SHEET, JOBFILE, PREVIEW, THUMBNAIL = (
    "result.png",
    "sheet.png",
    "job.toml",
    "preview.jpg",
    "thumbnail.jpg",
)
SMALL = 320  # pixels of a thumbnail's longer side
PREVIEW_SIDE = 768  # of a preview's
MAP_SIDE = 640  # of a mass map's
SKIP = 4  # of so many steps one is looked at
CELLS = 1200  # of an attention grid that is looked at; a larger one would take as long as the run


class Onlooker:
    """Keeps the mass that each style got, averaged over heads and steps, at one site of the finest grid that
    is not too fine. A picture made coarse to fine is looked at on its last level.
    """

    def __init__(self, lama: bool) -> None:
        self.lama = lama
        self.sums: np.ndarray | None = None
        self.count = 0
        self.site = self.last = -1

    def __call__(self, sight: Sight) -> None:
        height, width = sight.grid
        cells = height * width
        if self.sums is not None and sight.step < self.last:  # the next level has begun
            self.sums, self.count, self.site = None, 0, -1
        self.last = sight.step
        if sight.step % SKIP:
            return
        if cells > CELLS or (self.sums is not None and cells < self.sums[0].size):
            return
        if self.sums is None or cells > self.sums[0].size:
            self.site, self.count = sight.site.index, 0
            self.sums = np.zeros((sight.n + 1, height, width))
        if sight.site.index != self.site:
            return
        if self.lama:
            masses = joint_masses(sight.sharpened, sight.shift, sight.tau)
        else:
            masses = joint_masses(moments(sight.partitions, sight.tau), 0.0, sight.tau)
        self.sums += masses.mean(1).double().cpu().numpy().reshape(self.sums.shape)
        self.count += 1

    @property
    def masses(self) -> np.ndarray | None:
        """(N, h, w), from 0 to 1."""
        return None if self.sums is None or not self.count else self.sums[:-1] / self.count


def watched(method: Method) -> tuple[Method, Onlooker | None]:
    """MAST under an onlooker's eyes, with the same bits; any other method as it is."""
    if type(method) is not Mast:
        return method, None
    onlooker = Onlooker(method.lama)
    own = {f.name: getattr(method, f.name) for f in fields(Mast)}
    return Observer(**own, watch=onlooker), onlooker


# ------------------------------------------------------------------------------------------------ writing


def job_of(request: Mapping[str, Any], folder: Path) -> Job:
    """The job of a request whose files lie in a folder."""
    names = {path.stem: path for path in folder.iterdir()}
    regions = tuple(
        Region(
            names[f"style{i}"],
            names[f"mask{i}"] if region["mask"] is not None else None,
            region["strength"],
            names[f"stylemask{i}"] if region["style_mask"] is not None else None,
        )
        for i, region in enumerate(request["regions"], 1)
    )
    return Job(names["photo"], regions)


def region_titles(request: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the regions that can be printed, none empty and none twice."""
    titles: list[str] = []
    for i, region in enumerate(request["regions"], 1):
        text = "".join(c if c.isprintable() else " " for c in region["name"]).strip() or f"region {i}"
        titles.append(text if text not in titles else f"{text} ({i})")
    return tuple(titles)


def write_extras(
    result: Result,
    onlooker: Onlooker | None,
    request: Mapping[str, Any],
    method: tuple[str, Mapping[str, Any]],
    settings: Mapping[str, Any],
    model: str,
    folder: Path,
) -> dict[str, Any]:
    """Writes all that goes with a picture; returns what the server tells of it. method: its name and the
    options that were asked for; settings: those asked for, and "preset".
    """
    titles, inputs = region_titles(request), result.inputs
    styles = [(style.picture, title) for style, title in zip(inputs.styles, titles, strict=True)]
    save_png(sheet([contact_row(inputs.photo, inputs.masks.numpy(), styles, result.image)]), folder / SHEET)
    masses = None if onlooker is None else onlooker.masses
    photo = inputs.photo.copy()
    photo.thumbnail((MAP_SIDE, MAP_SIDE), Image.Resampling.LANCZOS)
    for i, values in enumerate(() if masses is None else masses):
        save_png(mass_map(photo, values, request["regions"][i]["colour"]), folder / f"mass{i}.png")
    save_small(result.image, folder / THUMBNAIL, SMALL)
    job = job_of(request, folder)
    text = write_method(*method)
    write_jobfile(JobFile(job, titles, text, dict(settings), folder / PICTURE, model), folder / JOBFILE, True)
    (folder / PREVIEW).unlink(missing_ok=True)
    return {
        "width": result.image.width,
        "height": result.image.height,
        "masses": [] if masses is None else list(titles),
        "command": command(job, text, settings, model),
        "notes": result.notes,
        "seconds": result.seconds,
    }


def mass_map(photo: Image.Image, values: np.ndarray, colour: str) -> Image.Image:
    """How much attention (h, w) each place gives to a style, in the region's colour over the photo."""
    fitted = Image.fromarray(values.astype(np.float32)).resize(photo.size, Image.Resampling.BILINEAR)
    return overlay(photo, np.clip(np.asarray(fitted), 0, 1)[None], 0.9, [colour])


def save_small(picture: Image.Image, path: Path, side: int) -> None:
    """As a JPEG whose longer side has no more than so many pixels; on white where it is transparent."""
    small = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    small.thumbnail((side, side), Image.Resampling.BILINEAR)
    if small.mode == "RGBA":
        small = Image.alpha_composite(Image.new("RGBA", small.size, "white"), small).convert("RGB")
    with atomic(path) as part:
        small.save(part, format="JPEG", quality=85)


def command(job: Job, method: str, settings: Mapping[str, Any], model: str) -> str:
    """The command line that paints the same picture in the job's folder."""
    words = ["mast", "stylize", _name(job.content)]
    for region in job.regions:
        strength = "" if region.strength == 1 else f"@{region.strength:g}"
        where = "rest" if region.mask is None else _name(region.mask)
        words += ["-r", f"{where}={_name(region.style)}{strength}"]
    for i, region in enumerate(job.regions, 1):
        words += [] if region.style_mask is None else ["--style-mask", f"{i}={_name(region.style_mask)}"]
    words += [] if method == "mast" else ["--method", method]
    words += [] if model == "preview" else ["--model", model]
    names = {"keep_unassigned": "keep"}
    for key, value in settings.items():
        words += [f"--{names.get(key, key)}", str(value)]
    return shlex.join([*words, "-o", PICTURE])


def _name(image: Any) -> str:
    return Path(image).name
