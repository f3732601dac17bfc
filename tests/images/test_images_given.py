"""Pictures given in Python: paths, bytes, open files, picture objects, arrays and tensors mean the same."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from mast.images import describe, file_bytes, read_mask, read_photo, read_rgb, split_colour, with_alpha
from mast.job import InputError, Result
from tests.damaged import encoded, noise

PIXELS = np.asarray(noise(48, 32))


def test_files_in_every_shape_are_the_same_picture():
    data = encoded(noise(48, 32))
    Path("photo.png").write_bytes(data)
    with open("photo.png", "rb") as file:
        file.seek(17)
        for given_as in (
            "photo.png",
            Path("photo.png"),
            data,
            bytearray(data),
            memoryview(data),
            io.BytesIO(data),
            file,
        ):
            for _ in range(2):  # a job reads its photo more than once
                assert (np.asarray(read_rgb(given_as)) == PIXELS).all()
                assert read_mask(given_as).shape == (32, 48)
        assert file_bytes(file) == file_bytes(io.BytesIO(data)) == file_bytes(data) == data
    assert file_bytes("photo.png") is None and file_bytes(PIXELS) is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.from_numpy(PIXELS.copy()),
        torch.from_numpy(PIXELS.copy()).permute(2, 0, 1),
        torch.from_numpy(PIXELS.copy()).permute(2, 0, 1)[None],
        torch.from_numpy(PIXELS.copy()).permute(2, 0, 1).double() / 255,
        (torch.from_numpy(PIXELS.copy()).permute(2, 0, 1).float() / 255).requires_grad_(),
    ],
    ids=["h w 3", "3 h w", "1 3 h w", "floats", "with a gradient"],
)
def test_tensors_are_read_with_the_channels_first_or_last(tensor: torch.Tensor):
    assert (np.asarray(read_rgb(tensor)) == PIXELS).all()


@pytest.mark.parametrize("shape", [(32, 48), (1, 32, 48), (32, 48, 1), (1, 1, 32, 48)])
def test_tensors_of_one_channel_are_masks(shape: tuple[int, ...]):
    half = np.zeros((32, 48), np.float32)
    half[:, :24] = 1
    for tensor in (torch.from_numpy(half), torch.from_numpy(half) > 0, torch.from_numpy(half).bfloat16()):
        mask = read_mask(tensor.reshape(shape))
        assert mask.dtype == np.float32 and (mask == half).all()
    assert (read_mask((torch.from_numpy(half) * 255).byte().reshape(shape)) == half).all()


@pytest.mark.parametrize("read", [read_rgb, read_mask])
@pytest.mark.parametrize(
    ("given_as", "says"),
    [
        (None, "photo: NoneType is no picture; give a path, a PIL image, an array, a tensor"),
        (3.5, "photo: float is no picture"),
        ([[0, 1], [1, 0]], "photo: list is no picture"),
        ({"path": "x"}, "photo: dict is no picture"),
        (b"", "photo: the file is empty"),
        (b"no picture", "photo: not a picture that can be read"),
        (io.BytesIO(b"no picture"), "photo: not a picture that can be read"),
        (io.StringIO("text"), "photo: the file is open as text; open it with mode 'rb'"),
        (torch.zeros(2, 3, 32, 32), r"photo: an array of shape \(2, 3, 32, 32\)"),
        (torch.zeros(32, 32, dtype=torch.int64), "photo: an array of int64"),
        (torch.zeros(32, 32, dtype=torch.complex64), "photo: an array of complex64"),
        (torch.zeros(3, 32, 32).to_sparse(), "photo: a tensor that holds no plain numbers"),
        (torch.full((3, 32, 32), -1.0), "photo: .*from 0 to 1"),
        (np.full((32, 32, 3), np.inf), "photo: .*none of them NaN or infinite"),
        (np.array([["a"] * 32] * 32), "photo: an array of <U1"),
    ],
)
def test_what_is_no_picture_is_refused_in_words_of_python(read, given_as: object, says: str):
    with pytest.raises(InputError, match=says) as caught:
        read(given_as, "photo")
    assert "--" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_is_read_while_another_thread_imports_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in the studio just after its start: the module is there, and still empty."""
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert (np.asarray(read_rgb(tmp_path / "a.png")) == PIXELS).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.5, 1.5, 255.0])
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor])
def test_masks_with_numbers_that_are_no_share_are_refused_by_name(value: float, make):
    values = np.full((32, 48), 0.5, np.float32)
    values[3, 3] = value
    with pytest.raises(
        InputError, match=r"^mask of the sky: (holds values that are not numbers|its values run)"
    ):
        read_mask(make(values), "mask of the sky")


def test_a_stream_that_cannot_be_read_again_is_refused():
    """A job reads its photo more than once; a socket or a pipe gives it once."""
    receiving, sending = os.pipe()
    with open(receiving, "rb") as stream, open(sending, "wb") as other:
        other.write(encoded(noise(16, 16)))
        other.flush()
        with pytest.raises(
            InputError, match=r"photo: the open file cannot be read from its beginning .*its bytes"
        ):
            read_rgb(stream, "photo")


def test_a_picture_object_is_left_as_it_was():
    image = Image.open(io.BytesIO(encoded(noise(48, 32), "PNG")))
    read_rgb(image).putpixel((0, 0), (0, 0, 0))
    assert (np.asarray(image) == PIXELS).all()


def test_a_picture_object_whose_file_is_cut_short_is_an_input_error():
    image = Image.open(io.BytesIO(encoded(noise(48, 32))[:2000]))
    with pytest.raises(InputError, match="photo: damaged or cut short"):
        read_rgb(image, "photo")


def test_names_that_are_no_text_are_read_and_shown():
    name = os.fsdecode(b"caf\xe9.png")
    noise().save(name)
    assert read_rgb(name).size == (64, 64) and describe(name) == r"caf\xe9.png"
    Path(name).write_bytes(b"")
    with pytest.raises(InputError, match=r"caf\\xe9\.png: the file is empty") as caught:
        read_rgb(name)
    str(caught.value).encode()


@pytest.mark.parametrize("path", ["x" * 300 + "#ff0000", "a\0#ff0000", "\ud800#ff0000"])
def test_a_map_that_could_not_exist_is_an_input_error(path: str):
    assert split_colour(path)[1] == (255, 0, 0)
    with pytest.raises(InputError, match="give the path of the map"):
        read_mask(path)


def test_threads_read_at_once_and_no_warning_filter_is_left_behind():
    """Pillow's warnings are turned off for the whole process while a picture is read, and then on again."""
    import warnings

    before, data, wrong = list(warnings.filters), encoded(noise(48, 32), "TIFF", compression="tiff_lzw"), []

    def work() -> None:
        for _ in range(20):
            if not (np.asarray(read_rgb(data)) == PIXELS).all():
                wrong.append("pixels")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and warnings.filters == before


# ------------------------------------------------------------------------------------------------ alpha


def clear_half() -> Image.Image:
    image = noise(48, 32).convert("RGBA")
    image.putalpha(Image.fromarray(np.repeat(np.linspace(0, 255, 48).astype(np.uint8)[None], 32, 0)))
    return image


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_a_transparent_photo_gives_its_alpha_and_colours_laid_on_white(kind: str):
    image = clear_half()
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    rgb, alpha = read_photo(encoded(image, kind, **options))
    assert alpha.mode == "L" and (np.asarray(alpha) == np.asarray(image)[..., 3]).all()
    assert (np.asarray(rgb) == np.asarray(read_rgb(image))).all()
    assert (np.asarray(rgb)[:, 0] == 255).all() and (np.asarray(rgb)[:, -1] == PIXELS[:, -1]).all()


@pytest.mark.parametrize("image", [noise(), noise().convert("RGBA"), noise().convert("LA")])
def test_an_opaque_photo_has_no_alpha(image: Image.Image):
    assert read_photo(image)[1] is None


@given(
    arrays.arrays(np.uint8, (16, 16, 3)),
    arrays.arrays(np.uint8, (16, 16), elements=st.sampled_from([0, 1, 40, 128, 200, 254, 255])),
)
def test_a_transparent_photo_that_nothing_is_done_to_comes_back(pixels: np.ndarray, alpha: np.ndarray):
    """Laid on white, the picture with its alpha back is the picture before, and its alpha is the same."""
    image = Image.fromarray(pixels)
    image.putalpha(Image.fromarray(alpha))
    rgb, found = read_photo(image)
    if found is None:
        assert (alpha == 255).all()
        return
    again, same = read_photo(with_alpha(rgb, found, rgb))
    assert (np.asarray(same) == alpha).all()
    assert np.abs(np.asarray(again, int) - np.asarray(rgb, int)).max() <= 1
    opaque = alpha == 255
    assert (np.asarray(with_alpha(rgb, found, rgb))[opaque][:, :3] == pixels[opaque]).all()


@given(
    arrays.arrays(np.uint8, (16, 16, 3)),
    arrays.arrays(np.uint8, (16, 16)),
    arrays.arrays(np.uint8, (16, 16, 3)),
)
def test_what_a_result_changed_is_neither_more_nor_less_for_being_transparent(pixels, alpha, made):
    image = Image.fromarray(pixels)
    image.putalpha(Image.fromarray(alpha))
    rgb, found = read_photo(image)
    if found is None:
        return
    colours = np.asarray(with_alpha(Image.fromarray(made), found, rgb), int)[..., :3]
    before = np.asarray(with_alpha(rgb, found, rgb), int)[..., :3]
    assert (colours[alpha == 255] == made[alpha == 255]).all()
    assert (np.abs(colours - before) <= np.abs(made - np.asarray(rgb, int)) + 1).all()


def test_alpha_follows_the_size_of_the_result():
    rgb, alpha = read_photo(clear_half())
    made = with_alpha(rgb.resize((96, 64)), alpha, rgb)
    assert made.mode == "RGBA" and made.size == (96, 64)
    assert made.getchannel("A").getpixel((95, 5)) == 255 and made.getchannel("A").getpixel((0, 5)) == 0


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tiff"])
def test_transparent_stays_transparent_in_the_output(suffix: str):
    rgb, alpha = read_photo(clear_half())
    result = Result(with_alpha(rgb, alpha, rgb), {}, {})
    result.save(f"out{suffix}")
    assert (np.asarray(Image.open(f"out{suffix}").convert("RGBA")) == np.asarray(result.image)).all()
    assert result.notes == []


def test_jpeg_cannot_be_transparent_and_says_so():
    rgb, alpha = read_photo(clear_half())
    result = Result(with_alpha(rgb, alpha, rgb), {}, {})
    result.save("out.jpg")
    assert result.notes == ["out.jpg: JPEG has no transparency; the picture was laid on white"]
    assert min(Image.open("out.jpg").getpixel((0, 5))) > 245
    opaque = Result(noise().convert("RGBA"), {}, {})
    opaque.save("opaque.jpg")
    assert opaque.notes == []
