"""A run: prepare, one of two engines, compose, and a record of how it was made."""

from .compose import recomposite
from .stylize import bytes_on, default_method, default_settings, stylize

__all__ = ["bytes_on", "default_method", "default_settings", "recomposite", "stylize"]
