"""Files and arrays that cannot be used: each has its own sentence, with the file's name and a way out."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import read_mask, read_rgb
from mast.job import InputError
from tests.damaged import BAD_KINDS, encoded, noise, write_bad


@pytest.mark.parametrize("read", [read_rgb, read_mask])
@pytest.mark.parametrize("kind", BAD_KINDS)
def test_a_bad_file_is_named_with_what_is_wrong_and_a_way_out(in_folder: Path, kind: str, read):
    name, says = write_bad(in_folder, kind)
    with pytest.raises(InputError, match=says) as caught:
        read(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert ";" in message and "\n" not in message


@pytest.mark.parametrize("read", [read_rgb, read_mask])
def test_a_file_that_is_not_there_and_a_folder_are_told_apart(in_folder: Path, read):
    with pytest.raises(InputError, match=r"gone\.png: no such file; give the path"):
        read("gone.png")
    with pytest.raises(InputError, match=r"this is a folder; give the path"):
        read(in_folder)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "TIFF", "WEBP", "BMP", "AVIF"])
def test_flipped_bytes_give_a_picture_or_an_input_error_but_nothing_else(in_folder: Path, kind: str):
    rng = random.Random(0)
    whole = encoded(noise(32, 24), kind)
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 12)):
            data[rng.randrange(min(300, len(data)))] = rng.randrange(256)
        Path("flipped.bin").write_bytes(data)
        try:
            assert read_rgb("flipped.bin").mode == "RGB"
            assert read_mask("flipped.bin").dtype == np.float32
        except InputError as error:
            assert "flipped.bin" in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((32, 32, 2), np.uint8), r"shape \(32, 32, 2\)"),
        (np.zeros((2, 32, 32, 3), np.uint8), r"shape \(2, 32, 32, 3\)"),
        (np.zeros((0, 0, 3), np.float32), r"shape \(0, 0, 3\)"),
        (np.full((32, 32, 3), np.nan), "from 0 to 1"),
        (np.full((32, 32, 3), 200.0), "from 0 to 1"),
        (np.full((32, 32, 3), 7, np.int64), "int64"),
        (np.zeros((8, 8, 3), np.uint8), "too small"),
    ],
)
def test_an_array_that_is_no_picture_is_refused(array: np.ndarray, says: str):
    with pytest.raises(InputError, match=says):
        read_rgb(array, "photo")


def test_a_picture_object_that_is_too_small_is_refused():
    with pytest.raises(InputError, match="photo: 15x40 is too small"):
        read_rgb(Image.new("RGB", (15, 40)), "photo")
