"""Job files: a photo, its regions and how to paint them, as TOML that people can write.

    photo = "cat.jpg"             # paths are relative to the file
    output = "cat-painted.png"
    method = "mast:lam=0.1"       # as --method takes it

    [settings]
    preset = "fast"

    [[region]]
    name = "cat"
    style = "waves.png"
    mask = "cat-mask.png"         # as -r takes it; left out, or "rest": what the others leave over
    strength = 0.8

What is wrong is said with its line, before a model is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..backbone.backbone import Backbone
from ..files import atomic, check_output, shown
from ..images import OUTPUTS
from ..job import PRESETS, InputError, Job, Region, Settings
from ..methods import Method, make
from ..methods.spec import parse_method, write_method
from ..regions.auto import check_count
from ..regions.partition import BACKGROUND, distinct_names
from ..regions.parts import split_part
from ..regions.read import own_name
from ..regions.specs import REST
from .provenance import job_from, method_from
from .stylize import default_method, default_settings
from .toml import TomlFile, TomlTable, read_toml, written

TOP = ("photo", "output", "method", "model", "prediction_type", "auto", "settings", "region")
IN_REGION = ("name", "style", "mask", "strength", "style_mask")
SETTINGS = ("preset", *(name for name in Settings.__dataclass_fields__))
PHOTO = "{photo}"  # in a mask's path: the photo's name without its suffix
LONGEST_NAME = 100  # letters of a region's name


@dataclass(frozen=True)
class JobFile:
    """What a job file says. Paths are resolved.

    names: of the regions. method: as --method takes it. settings: those that were given, and "preset".
    model, prediction_type: as these options take it. auto: so many regions are to be found in the photo; the
    job's have no masks then, and get them in their order: objects, largest first, and the background last.
    """

    job: Job
    names: tuple[str, ...] = ()
    method: str = "mast"
    settings: dict[str, Any] = field(default_factory=dict)
    output: Path | None = None
    model: str = "preview"
    prediction_type: str | None = None
    auto: int | None = None

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", region_names(self.job, self.auto))
        if len(self.names) != len(self.job.regions):
            raise InputError(f"{len(self.names)} names for {len(self.job.regions)} regions; give each one")

    def method_for(self, backbone: Backbone | None) -> Method:
        """The method with what the model likes, and over that the file's options."""
        spec = parse_method(self.method)
        return default_method(backbone, spec.method, **spec.options)

    def settings_for(self, backbone: Backbone | None) -> Settings:
        """The settings, with the model's own where the file has none."""
        given = {key: value for key, value in self.settings.items() if key != "preset"}
        return default_settings(backbone, self.settings.get("preset"), **given)


def region_names(job: Job, auto: int | None = None) -> tuple[str, ...]:
    """What regions are called that have no name of their own: as their masks are."""
    photo = Path(job.content) if isinstance(job.content, (str, os.PathLike)) else Path("photo")
    names: list[str] = []
    for i, region in enumerate(job.regions):
        if auto is not None:
            name = BACKGROUND if i == auto - 1 else "object"
        elif region.mask is None:
            name = REST
        elif isinstance(region.mask, (str, os.PathLike)):
            path, part = split_part(region.mask)
            name = part or own_name(path, photo)
        else:
            name = f"region {i + 1}"
        names.append(name)
    return tuple(distinct_names(names))


# ------------------------------------------------------------------------------------------------ reading


def read_jobfile(
    path: str | os.PathLike[str], photo: str | os.PathLike[str] | None = None, auto: int | None = None
) -> JobFile:
    """What a job file says, checked: names, kinds, ranges, and that every file is there.

    photo: instead of the file's own, which may then be missing; "{photo}" in a mask's path stands for its
    name. auto: so many regions are to be found, whatever masks the file names.
    """
    file = read_toml(path, "job file")
    top = file.top
    top.only(TOP, "a job file")
    content = Path(photo) if photo is not None else _photo(top, file)
    spec = top.text("method", "mast")
    with top.at("method"):
        method = parse_method(spec)
        finds_itself = make(method.method, **method.options).auto
    number = top.whole("auto") if auto is None else auto
    if number is not None:
        with top.at("auto"):
            check_count(number, "auto is")
    regions, names = _regions(top, file, content, number, finds_itself, auto is not None)
    if not regions and method.method != "reconstruct":
        raise top.error(
            None, 'no region; add [[region]] with style = "PAINTING.png", or use method reconstruct'
        )
    output = top.text("output", "") or None
    if output is not None and Path(output).suffix.lower() not in OUTPUTS:
        raise top.error("output", f"{output!r} must end in {' or '.join(OUTPUTS)}")
    model = top.text("model", "preview")
    return JobFile(
        Job(content, regions),
        names,
        spec,
        _settings(top),
        None if output is None else file.beside(output),
        str(file.beside(model)) if model != "preview" and file.beside(model).exists() else model,
        top.text("prediction_type", "") or None,
        number,
    )


def _photo(top: TomlTable, file: TomlFile) -> Path:
    if not top.has("photo"):
        raise top.error(None, 'no photo; add photo = "PHOTO.jpg" at the top, or name photos beside --job')
    return _file(top, "photo", file, "photo")


def _file(table: TomlTable, key: str, file: TomlFile, what: str) -> Path:
    if not table.text(key):
        raise table.error(key, f"{key} is empty; write the path of the {what} there")
    path = file.beside(table.text(key))
    if not os.path.isfile(path):
        raise table.error(key, f"{shown(path)}: no such file; give the path of the {what}")
    return path


def _regions(
    top: TomlTable, file: TomlFile, photo: Path, auto: int | None, finds_itself: bool, unmasked: bool
) -> tuple[tuple[Region, ...], tuple[str, ...]]:
    tables = top.tables("region")
    regions: list[Region] = []
    for table in tables:
        table.only(IN_REGION, "a region")
        if not table.has("style"):
            raise table.error(None, 'a region without a style; add style = "PAINTING.png"')
        mask = None if unmasked else _mask(table, file, photo)
        if mask is not None and auto is not None:
            raise table.error("mask", f"auto = {auto} finds the regions itself; leave the mask out, or auto")
        open_before = [i for i, region in enumerate(regions) if region.mask is None]
        if mask is None and open_before and auto is None and not finds_itself:
            raise table.error(
                None,
                f"a second region without a mask, beside region {open_before[0] + 1}; only one can take what "
                f"is left over, so give the others a mask, or add auto = {len(tables)} at the top to have "
                "them found",
            )
        strength = table.number("strength", 1.0)
        style_mask = _file(table, "style_mask", file, "style mask") if table.has("style_mask") else None
        style = _file(table, "style", file, "style image")
        with table.at("strength"):
            region = Region(style, mask, strength, style_mask)
        same = [
            i
            for i, other in enumerate(regions)
            if mask is not None and replace(other, strength=1.0) == replace(region, strength=1.0)
        ]
        if same:
            raise table.error(None, f"the same style and mask as region {same[0] + 1}; leave one of them out")
        regions.append(region)
    if auto is not None and len(regions) != auto:
        raise top.error(
            "auto",
            f"auto = {auto}, but there are {len(regions)} regions; write a [[region]] for each to be found",
        )
    return tuple(regions), _names(tables, region_names(Job(photo, tuple(regions)), auto))


def _mask(table: TomlTable, file: TomlFile, photo: Path) -> str | None:
    if not table.has("mask"):
        return None
    text = table.text("mask")
    if text in ("", REST):
        return None
    if not _is_there(str(file.beside(text))):
        text = text.replace(PHOTO, photo.stem)
    mask = str(file.beside(text))
    if not _is_there(mask):
        raise table.error(
            "mask",
            f"{shown(split_part(mask)[0])}: no such file; give a mask, MAP.png#rrggbb or SOURCE#NAME, or "
            "leave mask out for what the other regions leave over",
        )
    return mask


def _is_there(mask: str) -> bool:
    return os.path.isfile(split_part(mask)[0])


def _names(tables: list[TomlTable], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The names that were given; of the others, the usual ones, and none twice."""
    given: dict[str, int] = {}
    for i, table in enumerate(tables):
        if not table.has("name"):
            continue
        name = table.text("name")
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise table.error("name", f"{shown(name)}: give a name of 1 to {LONGEST_NAME} letters")
        if name in given:
            raise table.error(
                "name", f"region {given[name] + 1} is called {name!r} too; give it another name"
            )
        given[name] = i
    others = [name for table, name in zip(tables, usual, strict=True) if not table.has("name")]
    free = iter(distinct_names(others, tuple(given)))
    return tuple(table.text("name") if table.has("name") else next(free) for table in tables)


def _settings(top: TomlTable) -> dict[str, Any]:
    table = top.table("settings")
    table.only(SETTINGS, "[settings]")
    found: dict[str, Any] = {}
    for key, value in table.values.items():
        if key == "preset":
            if table.text(key) not in PRESETS:
                raise table.error(key, f"preset {value!r} is not known; choose one of {', '.join(PRESETS)}")
        elif key == "cache" and not isinstance(value, bool):
            raise table.error(key, f"cache is {value!r}; write true or false")
        else:
            with table.at(key):
                Settings().with_(**{key: value})
        found[key] = value
    return found


# ------------------------------------------------------------------------------------------------ writing


def write_jobfile(jobfile: JobFile, path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Writes a job file that `read_jobfile` reads as the same, whole or not at all; paths relative to it."""
    target = check_output(path, overwrite, (".toml",))
    text = jobfile_text(jobfile, target.parent)
    with atomic(target, overwrite) as part:
        part.write_text(text, encoding="utf-8", newline="\n")


def jobfile_text(jobfile: JobFile, folder: str | os.PathLike[str]) -> str:
    """A job file that lies in a folder, as text."""
    home = os.path.abspath(folder)

    def near(image: Any, what: str) -> str:
        if isinstance(image, str) and not image:  # to be filled in
            return f'""  # the path of the {what}'
        if not isinstance(image, (str, os.PathLike)):
            raise InputError(
                f"the {what} is given as {type(image).__name__}, and a job file names files; save it first"
            )
        file, part = split_part(image)
        try:
            path = Path(os.path.relpath(os.path.abspath(file), home)).as_posix()
        except ValueError:  # on another drive
            path = Path(os.path.abspath(file)).as_posix()
        path = f"./{path}" if path == REST else path
        return written(path if part is None else f"{path}#{part}")

    lines = ["# A job of mast: mast stylize THIS.toml paints it. Paths are relative to this file.", ""]
    lines.append(f"photo = {near(jobfile.job.content, 'photo')}")
    if jobfile.output is not None:
        lines.append(f"output = {near(jobfile.output, 'output')}")
    lines += ["# as --method takes it; mast methods lists them", f"method = {written(jobfile.method)}"]
    if jobfile.model != "preview":
        model = near(jobfile.model, "model") if os.path.exists(jobfile.model) else written(jobfile.model)
        lines.append(f"model = {model}")
    if jobfile.prediction_type is not None:
        lines.append(f"prediction_type = {written(jobfile.prediction_type)}")
    if jobfile.auto is not None:
        lines.append(
            f"auto = {jobfile.auto}  # so many regions are found in the photo, objects first, background last"
        )
    if jobfile.settings:
        lines += ["", "[settings]  # what is not here is as the model likes it"]
        lines += [f"{key} = {written(value)}" for key, value in jobfile.settings.items() if value is not None]
    for name, region in zip(jobfile.names, jobfile.job.regions, strict=True):
        lines += ["", "[[region]]", f"name = {written(name)}", f"style = {near(region.style, 'style image')}"]
        if region.mask is not None:
            lines.append(f"mask = {near(region.mask, 'mask')}")
        elif jobfile.auto is None:
            lines.append("# no mask: what the other regions leave over")
        if region.strength != 1:
            lines.append(f"strength = {written(float(region.strength))}  # above 0, at most 1")
        if region.style_mask is not None:
            part = near(region.style_mask, "style mask")
            lines.append(f"style_mask = {part}  # the part of the painting that counts")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------ records


def jobfile_of_record(
    record: Mapping[str, Any], beside: str | os.PathLike[str], output: Path | None = None
) -> JobFile:
    """The job file of a checked record (provenance.load_record), for the folder its paths are relative to:
    every setting and option as it was, so that it paints the same picture.
    """
    known = dict(record)
    method = method_from(known)
    job = job_from(known, Path(beside))
    model = known["model"]["name"] if method.needs_backbone else None
    if model is not None and model != "preview" and (Path(beside) / model).exists():
        model = os.path.normpath(Path(beside) / model)
    options = {key: value for key, value in known["method"].items() if key != "name"}
    return JobFile(
        job,
        (),
        write_method(method.name, options),
        dict(known["settings"]),
        output,
        model or "preview",
        known.get("prediction_type") if model not in (None, "preview") else None,
    )
