"""mast: regional multi-style transfer with a frozen diffusion model.

    import mast

    result = mast.stylize(mast.Job("photo.jpg", (
        mast.Region("waves.png", mask="sky.png"),
        mast.Region("mosaic.png"),
    )))
    result.save("out.png")

Importing mast is quick: each name below is imported, and torch with it, when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backbone.backbone import Backbone
    from .backbone.instrument import controlled
    from .backbone.load import load
    from .job import Cancelled, InputError, Job, NotFinite, Progress, Region, Result, Settings
    from .methods import METHODS, DiffusionMethod, Mast, Method, Reconstruct, SharedAttention
    from .methods.feedforward.network import FeedForward
    from .pipeline import default_method, default_settings, read_job, recomposite, stylize

_PLACES = {
    "Backbone": "backbone.backbone",
    "controlled": "backbone.instrument",
    "load": "backbone.load",
    **dict.fromkeys(
        ("Cancelled", "InputError", "Job", "NotFinite", "Progress", "Region", "Result", "Settings"), "job"
    ),
    **dict.fromkeys(
        ("METHODS", "DiffusionMethod", "Mast", "Method", "Reconstruct", "SharedAttention"), "methods"
    ),
    "FeedForward": "methods.feedforward.network",
    **dict.fromkeys(("default_method", "default_settings", "read_job", "recomposite", "stylize"), "pipeline"),
}

__all__ = [
    "METHODS",
    "Backbone",
    "Cancelled",
    "DiffusionMethod",
    "FeedForward",
    "InputError",
    "Job",
    "Mast",
    "Method",
    "NotFinite",
    "Progress",
    "Reconstruct",
    "Region",
    "Result",
    "Settings",
    "SharedAttention",
    "controlled",
    "default_method",
    "default_settings",
    "load",
    "read_job",
    "recomposite",
    "stylize",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from .job import mast_version

        return mast_version()
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
