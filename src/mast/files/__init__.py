"""Files as they should be: a user's opened with care, ours whole or not there at all, and in their folder."""

from .names import cache_folder, check_output, check_outputs, kept, shown
from .reading import open_regular, parse_json, read_json, sha256
from .writing import atomic, new_folder, remove_leftovers

__all__ = [
    "atomic",
    "cache_folder",
    "check_output",
    "check_outputs",
    "kept",
    "new_folder",
    "open_regular",
    "parse_json",
    "read_json",
    "remove_leftovers",
    "sha256",
    "shown",
]
