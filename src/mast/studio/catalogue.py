"""What can be chosen, in plain words: presets, the paper's parameters, methods; and a request as a run takes
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..job import PRESETS, InputError, Settings

if TYPE_CHECKING:
    from ..methods.spec import MethodSpec

DRAFT: dict[str, Any] = {"size": 256, "steps": 8}
"""On top of the preset "fast": a look in seconds."""

PRESET_WORDS = {
    "draft": "A look in seconds: 256 pixels, few steps.",
    "fast": "A good picture in a fraction of the time: 12 steps with refined inversion.",
    "paper": "As in the paper: 50 steps, 512 pixels; what no region covers is painted from the photo.",
}


@dataclass(frozen=True)
class Parameter:
    """A knob. group: whether it goes into a request's options or settings; default: None is the model's."""

    name: str
    label: str
    about: str
    group: str
    kind: str
    min: float | None = None
    max: float | None = None
    step: float | None = None
    default: float | bool | str | None = None
    choices: tuple[str, ...] = ()
    paper: str = ""


PARAMETERS = (
    Parameter(
        "pi", "Style", "The share of attention that goes to a region's painting.", "options", "number",
        0.05, 1.0, 0.05, 0.9, paper="π*",
    ),
    Parameter(
        "lam", "Content", "How much the photo's own structure holds.", "options", "number",
        0.0, 1.0, 0.05, 0.2, paper="λ",
    ),
    Parameter(
        "r", "Detail", "From which fineness on the detail is the photo's own; smaller keeps more of it.",
        "options", "number", 0.05, 1.0, 0.05, 0.3, paper="r",
    ),
    Parameter(
        "tau", "Sharpness", "One factor for how sharp the attention is; left alone, a rule decides.",
        "options", "number", 0.5, 4.0, 0.1, None, paper="τ",
    ),
    Parameter(
        "lama", "Mass by mask", "Gives every painting exactly the attention its mask asks for.", "options",
        "switch", default=True, paper="LAMA",
    ),
    Parameter(
        "sts", "Sharpening", "Makes attention as sharp as the photo's own.", "options", "switch",
        default=True, paper="STS",
    ),
    Parameter(
        "ddi", "Detail from the photo", "Brings the photo's fine structure back.", "options", "switch",
        default=True, paper="DDI",
    ),
    Parameter(
        "steps", "Steps", "More steps take longer and follow the photo more closely.", "settings", "number",
        2, 100, 1, None, paper="T",
    ),
    Parameter(
        "size", "Size", "Pixels of the longer side at which the model paints.", "settings", "number",
        128, 1536, 64, None,
    ),
    Parameter(
        "refine", "Refine", "The share of the steps that every larger level of a large picture repeats.",
        "settings", "number", 0.1, 1.0, 0.05, 0.4,
    ),
    Parameter(
        "inversion", "Inversion", "How pictures become noise: as in the paper, or refined, which is closer.",
        "settings", "choice", choices=("plain", "refined"), paper="DDIM inversion",
    ),
    Parameter(
        "keep_unassigned", "Outside all regions", "Keep the photo's own pixels, or paint them too.",
        "settings", "choice", choices=("exact", "reconstruct"),
    ),
)  # fmt: skip


def parameters(defaults: dict[str, Any]) -> dict[str, Any]:
    """For the page. defaults: the model's own, which it tells when it is loaded."""
    own = defaults.get("mast", {})
    rows = []
    for parameter in PARAMETERS:
        row = {key: value for key, value in vars(parameter).items() if value not in (None, ())}
        value = (
            own.get(parameter.name, parameter.default) if parameter.group == "options" else parameter.default
        )
        row["default"] = None if isinstance(value, (list, tuple)) else value
        rows.append({"min": None, "max": None, "step": None, **row})
    return {"presets": [{"name": k, "about": v} for k, v in PRESET_WORDS.items()], "parameters": rows}


def methods() -> list[dict[str, Any]]:
    """Every method, with its options. Imports torch: not in the server's loop."""
    from ..methods import METHODS, option_names

    facts = ("about", "family", "needs", "licence", "reference")
    return [
        {"name": name, **{fact: getattr(m, fact) for fact in facts}, "options": option_names(m)}
        for name, m in METHODS.items()
    ]


# ------------------------------------------------------------------------------------------------ a request


def method_of(request: dict[str, Any]) -> tuple[MethodSpec, dict[str, Any]]:
    """The method of a request and all its options; refused where it could not be made. Imports torch."""
    from ..methods import make
    from ..methods.spec import parse_method, parse_option

    if ":" not in request["method"] and "=" in request["method"]:
        raise InputError(f"method {request['method']!r}: write METHOD or METHOD:OPTION=VALUE,...")
    spec = parse_method(request["method"])
    given = {
        key: parse_option(spec.method, key, _text(value), f"the option {key}")
        for key, value in request["options"].items()
        if value is not None
    }
    options = {**spec.options, **given}
    if make(spec.method, **options).auto:
        raise InputError(f"{spec.method} would find the regions itself; in the studio they are drawn")
    return spec, options


def _text(value: Any) -> str:
    """An option as people would write it: whatever JSON has made of it, one parser knows what it may be."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def settings_of(request: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The preset's name as mast knows it, and what is changed of it."""
    given = {key: value for key, value in request["settings"].items() if value is not None}
    preset = given.pop("preset", None)
    if preset == "draft":
        preset, given = "fast", {**DRAFT, **given}
    Settings(**PRESETS[preset or "fast"]).with_(**given)
    return preset, given
