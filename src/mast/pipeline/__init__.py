"""A run: read, prepare, one of two engines, compose, and a record of how it was made."""

from .compose import recomposite
from .inputs import JobInputs, read_job
from .stylize import bytes_on, default_method, default_settings, engine_of, ready_to_paint, stylize

__all__ = [
    "JobInputs",
    "bytes_on",
    "default_method",
    "default_settings",
    "engine_of",
    "read_job",
    "ready_to_paint",
    "recomposite",
    "stylize",
]
