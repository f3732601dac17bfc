"""Groups of options, declared once: a dataclass whose fields are typer's stands for all its options.

A command takes such groups as parameters, and `with_options` puts their fields in the groups' places. Nothing
heavy is imported before an option is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ..job import PRESETS, InputError, Settings

if TYPE_CHECKING:
    import torch

    from ..backbone.backbone import Backbone
    from ..metrics import Options

DEFAULTS = Settings()
REGIONS, METHOD, MODEL, MACHINE, OUTPUT = "Regions", "Method", "Model and settings", "Machine", "Output"
NETWORKS = "Measuring"


def option(
    panel: str, metavar: str, help: str, default: str | None = None, names: tuple[str, ...] = (), **more: Any
) -> Any:
    """An option in a panel of the help; default: in words, where the value itself says nothing."""
    more |= {} if default is None else {"show_default": default}
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, **more)


def flag(*names: str, help: str, panel: str | None = None) -> Any:
    """An option without a value."""
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar="")


def group(help: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=help)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with every parameter that is a group of options replaced by the group's fields. A field
    may be a group itself.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters.values()
    flat = [one for p in parameters for one in _fields(p.name, p.default, hints[p.name])]

    def called(**given: Any) -> None:
        command(**{p.name: _made(p.name, hints[p.name], given) for p in parameters})

    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in flat}
    return called


def _fields(name: str, default: Any, kind: Any) -> list[inspect.Parameter]:
    if not is_dataclass(kind):
        return [_keyword(name, default, kind)]
    hints = get_type_hints(kind, include_extras=True)
    return [one for f in fields(kind) for one in _fields(f.name, _default(f), hints[f.name])]


def _made(name: str, kind: Any, given: dict[str, Any]) -> Any:
    if not is_dataclass(kind):
        return given[name]
    hints = get_type_hints(kind, include_extras=True)
    return kind(**{f.name: _made(f.name, hints[f.name], given) for f in fields(kind)})  # type: ignore[operator]


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(f: Any) -> Any:
    if f.default is not MISSING:
        return f.default
    return inspect.Parameter.empty if f.default_factory is MISSING else f.default_factory()


# ------------------------------------------------------------------------------------------------ one by one

Overwrite = Annotated[bool, flag("--overwrite", help="Replace what is there already.", panel=OUTPUT)]
Metadata = Annotated[
    bool,
    flag(
        "--metadata/--no-metadata",
        help="Write how it was made, with file names, into the picture and OUT.json.",
        panel=OUTPUT,
    ),
]
Quiet = Annotated[bool, flag("--quiet", "-q", help="No progress, no notes.", panel=OUTPUT)]
AsJson = Annotated[bool, flag("--json", help="Print one JSON object on stdout.", panel=OUTPUT)]
Composite = Annotated[
    str | None,
    option(
        METHOD,
        "HOW",
        "How methods that know one style have their regions joined: hard, alpha, poisson or laplacian.",
        DEFAULTS.composite,
    ),
]
Region = Annotated[
    list[str],
    option(
        REGIONS,
        "MASK=STYLE",
        "A mask and its painting; MASK=STYLE@0.7 for less of it, rest=STYLE for what is left over.",
        names=("-r", "--region"),
    ),
]


# ------------------------------------------------------------------------------------------------ a run


@dataclass(frozen=True)
class RunOptions:
    """Which model, how it runs, and where."""

    model: Annotated[
        str, option(MODEL, "MODEL", "preview (embedded), a hub id, a diffusers folder or a checkpoint file.")
    ] = "preview"
    preset: Annotated[
        str | None,
        option(
            MODEL,
            "NAME",
            "paper (50 steps and moves, plain inversion) or fast (12 steps, refined).",
            "the model's",
        ),
    ] = None
    steps: Annotated[int | None, option(MODEL, "N", "Timesteps of the schedule.", "the preset's")] = None
    inversion: Annotated[
        str | None,
        option(MODEL, "HOW", "How a picture becomes noise: plain (paper) or refined.", "the preset's"),
    ] = None
    size: Annotated[
        str | None,
        option(MODEL, "PIXELS", "Longer side at which it is painted.", "the model's; the photo's if smaller"),
    ] = None
    coarse: Annotated[
        str | None,
        option(MODEL, "PIXELS", "Where a larger picture begins; off: at its own size.", "the model's size"),
    ] = None
    refine: Annotated[
        float | None,
        option(MODEL, "X", "Share of the steps that each larger level repeats.", str(DEFAULTS.refine)),
    ] = None
    windows: Annotated[
        str | None,
        option(
            MACHINE, "PIXELS", "Paint larger levels in windows of this side, or off.", "where memory is short"
        ),
    ] = None
    fit: Annotated[
        str | None,
        option(
            MODEL,
            "HOW",
            "To the model's stride: resize; pad, which keeps the aspect; square, the centre only (paper).",
            DEFAULTS.fit,
        ),
    ] = None
    keep: Annotated[
        str | None,
        option(
            MODEL,
            "WHAT",
            "Outside all regions: exact (the photo's own pixels) or reconstruct.",
            "exact; paper: reconstruct",
            ("--keep", "--keep-unassigned"),
        ),
    ] = None
    prediction_type: Annotated[
        str | None,
        option(MODEL, "KIND", "What the model predicts, where its config does not say it.", "the model's"),
    ] = None
    features: Annotated[
        str | None,
        option(MACHINE, "WHERE", "memory, or replay where that is short; auto decides.", DEFAULTS.features),
    ] = None
    cache: Annotated[
        bool, flag("--cache/--no-cache", help="Keep and use inversions on disk.", panel=MACHINE)
    ] = True
    device: Annotated[str, option(MACHINE, "NAME", "auto, cpu, cuda or mps.")] = "auto"
    dtype: Annotated[
        str, option(MACHINE, "KIND", "auto (float32 on a CPU, float16 on a GPU), float32, float16, bfloat16.")
    ] = "auto"

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that were given."""
        names = ("steps", "inversion", "fit", "refine", "features")
        given = {name: getattr(self, name) for name in names}
        given |= {name: _pixels(getattr(self, name)) for name in ("size", "coarse", "windows")}
        given |= {"keep_unassigned": self.keep, "cache": None if self.cache else False}
        return {name: value for name, value in given.items() if value is not None}

    def check(self, **more: Any) -> None:
        """Refuses settings that cannot be, before anything is loaded. more: settings of the command's own."""
        if self.preset is not None and self.preset not in PRESETS:
            raise InputError(f"preset {self.preset!r} is not known; choose one of {', '.join(PRESETS)}")
        Settings().with_(**{**self.changes, **more})

    def load(self) -> Backbone:
        """The diffusion model."""
        from ..backbone.load import load

        return load(self.model, self.device, self.dtype, self.prediction_type)

    def settings(self, backbone: Backbone | None, **more: Any) -> Settings:
        from ..pipeline import default_settings

        return default_settings(backbone, self.preset, **{**self.changes, **more})

    def place(self, backbone: Backbone | None) -> torch.device:
        """Where it is computed."""
        from ..backbone.device import resolve_device

        return resolve_device(self.device) if backbone is None else backbone.device


def _pixels(text: str | None) -> int | str | None:
    """A number, or a word that the settings know or refuse."""
    return int(text) if text is not None and text.isdecimal() else text


def _paper(value: float) -> str:
    return f"the model's; paper: {value}"


@dataclass(frozen=True)
class MastOptions:
    """What MAST, and shared attention, can be told."""

    lam: Annotated[
        float | None,
        option(
            METHOD, "X", "Content: how much the photo's own structure holds, 0 to 1 (lambda).", _paper(0.2)
        ),
    ] = None
    pi: Annotated[
        float | None,
        option(METHOD, "X", "Style: the share of attention on a region's style, 0 to 1 (pi*).", _paper(0.9)),
    ] = None
    r: Annotated[
        float | None,
        option(METHOD, "X", "Detail: from which frequency on it is the photo's (r).", _paper(0.3)),
    ] = None
    tau: Annotated[
        str | None,
        option(METHOD, "T", "Sharpness: one factor, or three coefficients A/B/C (tau).", "the model's"),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that were given."""
        from ..methods.spec import parse_tau

        tau = None if self.tau is None else parse_tau(self.tau)
        found = {"lam": self.lam, "pi": self.pi, "r": self.r, "tau": tau}
        return {name: value for name, value in found.items() if value is not None}


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class MetricOptions:
    """Which networks measure, and how R-FID draws."""

    inception: Annotated[
        str | None,
        option(NETWORKS, "NAME", "The Inception: fid, pytorch-fid, or artfid (the paper's scale).", "fid"),
    ] = None
    inception_weights: Annotated[
        Path | None, option(NETWORKS, "FILE", "Its file, e.g. art_inception.pth.", "fetched")
    ] = None
    lpips: Annotated[str, option(NETWORKS, "NAME", "The network of LPIPS: alex or vgg.")] = "alex"
    lpips_weights: Annotated[Path | None, option(NETWORKS, "FILE", "Its file.", "fetched")] = None
    repeats: Annotated[int, option(NETWORKS, "N", "Draws of R-FID.", min=1)] = 50
    seed: Annotated[int, option(NETWORKS, "N", "Seed of R-FID's draws.", min=0)] = 0
    batch: Annotated[int, option(NETWORKS, "N", "Pictures at a time.", min=1)] = 8

    def options(self, device: str, **more: Any) -> Options:
        from ..backbone.device import resolve_device
        from ..metrics import Options

        own = {f.name: getattr(self, f.name) for f in fields(self)} | {"inception": self.inception or "fid"}
        return Options(**{**own, **more}, device=resolve_device(device))
