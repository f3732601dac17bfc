"""A study's folder: study.json, the key that says which picture is whose; pictures under names that say
nothing; texts that the researcher may edit.

STUDY/study.json        criteria, cases, methods, and whose every picture is; never given to a participant
STUDY/pictures/ID.png   photos, regions, styles and outputs, freed of all metadata
STUDY/texts/*.md        consent, instructions and thanks, in Markdown
STUDY/answers.sqlite    what people answered, from the first `mast study serve` or `invite` on
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..files import atomic, read_json, sha256, shown
from ..job import InputError

KIND, VERSION = "mast-study", 1
FILE_NAME, PICTURES, TEXTS, ANSWERS = "study.json", "pictures", "texts", "answers.sqlite"
TEXT_NAMES = ("consent", "instructions", "thanks")
LONGEST_TEXT = 200_000  # bytes
PICTURE = re.compile(r"[0-9a-f]{16}\.png")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
MOST_POINTS = 11


@dataclass(frozen=True)
class Criterion:
    """One of the questions asked of every picture."""

    name: str
    label: str
    definition: str


CRITERIA = (  # the paper names them; the definitions are ours
    Criterion(
        "style",
        "Style faithfulness",
        "Each region shows the colours, textures and strokes of the painting that belongs to it.",
    ),
    Criterion(
        "content",
        "Content preservation",
        "What the photo shows can still be recognised, and nothing is lost.",
    ),
    Criterion(
        "boundary",
        "Boundary naturalness",
        "Where two regions meet, the change of style looks natural: no seams, halos or bleeding.",
    ),
    Criterion(
        "structure",
        "Structural consistency",
        "Shapes and layout stay as in the photo: nothing is bent, doubled or out of place.",
    ),
    Criterion(
        "detail", "Detail preservation", "Fine details of the photo, such as eyes, hair or letters, are kept."
    ),
    Criterion("quality", "Overall visual quality", "How good the picture looks as a whole."),
)
SCALE = {"points": 7, "low": "very poor", "high": "excellent"}


@dataclass(frozen=True)
class RatedPicture:
    """An output that people rate: its name for them, whose it is, and the variant that made it."""

    id: str
    method: str
    variant: str

    @property
    def file(self) -> str:
        return f"{self.id}.png"


@dataclass(frozen=True)
class StudyRegion:
    """A part of the photo: its name, its colour in the overlay, and the file of its painting."""

    name: str
    colour: str
    style: str


@dataclass(frozen=True)
class StudyCase:
    """A photo with its regions and every method's picture of it; sample: its id in the benchmark."""

    name: str
    n: int
    sample: str
    photo: str
    overlay: str
    regions: tuple[StudyRegion, ...]
    outputs: tuple[RatedPicture, ...]

    def files(self) -> Iterator[str]:
        yield from (self.photo, self.overlay)
        yield from (region.style for region in self.regions)
        yield from (output.file for output in self.outputs)


@dataclass(frozen=True)
class Study:
    """All that was decided when the study was made. hashes: sha256 of every picture, by its file's name."""

    folder: Path
    title: str
    seed: int
    methods: tuple[str, ...]
    cases: tuple[StudyCase, ...]
    practice: StudyCase
    manifest: str
    criteria: tuple[Criterion, ...] = CRITERIA
    scale: dict[str, Any] = field(default_factory=lambda: dict(SCALE))
    hashes: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> int:
        return int(self.scale["points"])

    @property
    def numbers(self) -> list[int]:
        """Every N, in order."""
        return sorted({case.n for case in self.cases})

    def outputs(self) -> Iterator[tuple[StudyCase, RatedPicture]]:
        return ((case, output) for case in self.cases for output in case.outputs)

    @property
    def answers_path(self) -> Path:
        return self.folder / ANSWERS

    def picture(self, file: str) -> Path:
        return self.folder / PICTURES / file


# ------------------------------------------------------------------------------------------------ writing


def write_study(study: Study, into: Path) -> None:
    """study.json in a folder, which need not be the study's own yet."""
    found = {"kind": KIND, "version": VERSION, **asdict(study)}
    del found["folder"]
    with atomic(into / FILE_NAME) as part:
        part.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ------------------------------------------------------------------------------------------------ reading


def read_study(folder: Path) -> Study:
    """The study of a folder that `mast study make` wrote; titles, criteria and scale may have been edited."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise InputError(
            f"{shown(folder)}: no {FILE_NAME} in it; give the folder that mast study make wrote, or make one"
        )
    found = read_json(path, "study")
    try:
        if not isinstance(found, dict) or found.get("kind") != KIND:
            raise ValueError("it is no study of mast")
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']!r}; this mast reads {VERSION}")
        study = Study(
            folder,
            _text(found["title"]),
            int(found["seed"]),
            tuple(_text(name) for name in found["methods"]),
            tuple(_case(case) for case in found["cases"]),
            _case(found["practice"]),
            _text(found["manifest"]),
            tuple(
                Criterion(*(_text(one[key]) for key in ("name", "label", "definition")))
                for one in found["criteria"]
            ),
            _scale(found["scale"]),
            {_picture(name): _text(value) for name, value in found["hashes"].items()},
        )
        _check(study)
    except KeyError as error:
        raise InputError(f"{shown(path)}: {error.args[0]!r} is missing; make the study again") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{shown(path)}: damaged ({error}); make the study again") from error
    return study


def check_pictures(study: Study) -> None:
    """Every picture is there and is the one the study was made with; all that are not are named at once."""
    wrong = []
    for name, wanted in study.hashes.items():
        path = study.picture(name)
        if not path.is_file():
            wrong.append(f"{shown(path)}: missing")
        elif sha256(path, "picture") != wanted:
            wrong.append(f"{shown(path)}: changed since the study was made")
    if wrong:
        listed = "".join(f"\n  {problem}" for problem in wrong)
        raise InputError(
            f"{shown(study.folder)}: {len(wrong)} of {len(study.hashes)} pictures are not the study's; put "
            f"them "
            f"back, or make the study again:{listed}"
        )


def read_text(study: Study, name: str) -> str:
    """One of the researcher's texts, Markdown as it stands in its file."""
    path = study.folder / TEXTS / f"{name}.md"
    try:
        if path.stat().st_size > LONGEST_TEXT:
            raise InputError(f"{shown(path)}: longer than {LONGEST_TEXT // 1000} kB; shorten it")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InputError(f"{shown(path)}: cannot be read ({reason}); put the text back") from error


def _case(found: dict[str, Any]) -> StudyCase:
    regions = tuple(
        StudyRegion(_text(one["name"]), _text(one["colour"]), _picture(one["style"]))
        for one in found["regions"]
    )
    outputs = tuple(
        RatedPicture(_text(one["id"]), _text(one["method"]), _text(one["variant"]))
        for one in found["outputs"]
    )
    for output in outputs:
        _picture(output.file)
    return StudyCase(
        _text(found["name"]),
        int(found["n"]),
        _text(found["sample"]),
        _picture(found["photo"]),
        _picture(found["overlay"]),
        regions,
        outputs,
    )


def _check(study: Study) -> None:
    """What edited files get wrong, and what would make answers worthless."""
    names = [one.name for one in study.criteria]
    if not names or len(set(names)) < len(names) or not all(NAME.fullmatch(name) for name in names):
        raise ValueError(
            "criteria need names of their own, small letters, digits and _ only, and at least one is needed"
        )
    if not study.cases or len(study.methods) < 2:
        raise ValueError("a study has at least one case and two methods")
    for case in study.cases:
        if sorted(output.method for output in case.outputs) != sorted(study.methods):
            raise ValueError(f"{case.name} has not one picture of every method")
    ids = [output.id for _, output in study.outputs()]
    if len(set(ids)) < len(ids):
        raise ValueError("two pictures have one name")
    for case in (*study.cases, study.practice):
        for file in case.files():
            if file not in study.hashes:
                raise ValueError(f"the sha256 of {file} is missing")


def _scale(found: dict[str, Any]) -> dict[str, Any]:
    points = found["points"]
    if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= MOST_POINTS:
        raise ValueError(f"a scale of {points!r} points; 2 to {MOST_POINTS} can be shown")
    return {"points": points, "low": _text(found["low"]), "high": _text(found["high"])}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} where a text must be")
    return value


def _picture(value: Any) -> str:
    if not PICTURE.fullmatch(_text(value)):
        raise ValueError(f"{value!r} where the name of a picture must be")
    return str(value)
