"""Pictures in and out: read with care, fitted to the model's stride, written with how they were made."""

from .decoding import FORMATS, LARGEST, PICTURES, SMALLEST, describe, file_bytes
from .fitting import centre_square, pad_to, squared, to_array, to_tensor, work_size
from .reading import (
    COLOUR_TOLERANCE,
    colour_of,
    read_mask,
    read_photo,
    read_rgb,
    split_colour,
    with_alpha,
)
from .writing import OUTPUTS, TEXT_KEY, portable, read_provenance, save_png, save_result

__all__ = [
    "COLOUR_TOLERANCE",
    "FORMATS",
    "LARGEST",
    "OUTPUTS",
    "PICTURES",
    "SMALLEST",
    "TEXT_KEY",
    "centre_square",
    "colour_of",
    "describe",
    "file_bytes",
    "pad_to",
    "portable",
    "read_mask",
    "read_photo",
    "read_provenance",
    "read_rgb",
    "save_png",
    "save_result",
    "split_colour",
    "squared",
    "to_array",
    "to_tensor",
    "with_alpha",
    "work_size",
]
