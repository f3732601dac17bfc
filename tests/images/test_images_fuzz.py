"""Whatever a file holds: a result or InputError, nothing else raised, nothing on the screen.

MAST_FUZZ is the number of examples of each property: MAST_FUZZ=5000 looks harder.
"""

from __future__ import annotations

import gc
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mast.images import read_mask, read_photo, read_provenance, read_rgb
from mast.job import InputError, Result
from tests.damaged import encoded, noise
from tests.images.kinds import png16, profile, tiff

EXAMPLES = int(os.environ.get("MAST_FUZZ", "100"))
RECORD = {"content": {"path": "photo.png"}, "regions": [], "settings": {}, "method": {"name": "mast"}}


def good_files() -> dict[str, bytes]:
    small, exif = noise(24, 20), Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a photo"
    floats = np.linspace(0, 1, 480, dtype=np.float32).reshape(20, 24, 1)
    found = {
        kind: encoded(small, kind, exif=exif, icc_profile=profile(1.8))
        for kind in ("PNG", "JPEG", "WEBP", "TIFF")
    }
    found |= {
        f"TIFF {how}": encoded(small, "TIFF", compression=how) for how in ("tiff_lzw", "tiff_deflate", "jpeg")
    }
    found |= {kind: encoded(small, kind) for kind in ("BMP", "GIF")}
    found |= {"PNG palette": encoded(small.quantize(16), "PNG", transparency=3), "TIFF floats": tiff(floats)}
    found |= {
        "PNG 16": png16(np.asarray(small).astype(np.uint16) * 257),
        "JPEG inks": encoded(small.convert("CMYK"), "JPEG"),
    }
    found["WEBP lossless"] = encoded(small.convert("RGBA"), "WEBP", lossless=True)
    return found


GOOD = good_files()


@pytest.fixture
def silent(capfd: pytest.CaptureFixture[str]):
    """Checks that nothing was written to the screen, by Python or past it, and that nobody was warned."""
    gc.collect()  # what other tests left behind is not ours to be warned of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert capfd.readouterr() == ("", "")


def only_input_errors(read: Callable[[], object], name: str) -> None:
    try:
        read()
    except InputError as error:
        text = str(error)
        assert name in text and "\n" not in text and ";" in text
        text.encode()


def read_all(data: bytes) -> None:
    Path("some.bin").write_bytes(data)

    def rgb() -> None:
        image, alpha = read_photo("some.bin")
        assert image.mode == "RGB" and min(image.size) >= 16
        assert alpha is None or (alpha.mode == "L" and alpha.size == image.size)

    def mask() -> None:
        values = read_mask("some.bin")
        assert values.dtype == np.float32 and values.ndim == 2
        assert np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1

    for read in (rgb, mask, lambda: read_provenance("some.bin")):
        only_input_errors(read, "some.bin")
    only_input_errors(lambda: read_rgb(data, "photo"), "photo")


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good file with bytes changed, put in, taken out, repeated, cut off, or with another's end."""
    data = bytearray(GOOD[draw(st.sampled_from(sorted(GOOD)))])
    for _ in range(draw(st.integers(1, 6))):
        near = draw(st.booleans())  # headers are near the beginning
        at = draw(st.integers(0, max(0, min(len(data), 200 if near else len(data)) - 1)))
        match draw(
            st.sampled_from(["change", "change", "change", "put in", "take out", "repeat", "cut", "join"])
        ):
            case "change" if data:
                data[at] = draw(st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255))
            case "put in":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "take out":
                del data[at : at + draw(st.integers(1, 40))]
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case "cut":
                del data[max(1, at) :]
            case "join":
                other = GOOD[draw(st.sampled_from(sorted(GOOD)))]
                data[at:] = other[draw(st.integers(0, len(other))) :]
    return bytes(data)


def test_the_good_files_are_good(silent):
    for name, data in GOOD.items():
        Path("some.bin").write_bytes(data)
        assert read_rgb("some.bin").size in ((24, 20), (20, 24)), name
        assert read_mask("some.bin").max() > 0, name


@settings(max_examples=EXAMPLES)
@given(data=st.binary(max_size=400))
def test_arbitrary_bytes(silent, data: bytes):
    read_all(data)


MAGIC = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff\xe0",
    b"RIFF\xff\0\0\0WEBPVP8 ",
    b"II*\0\x08\0\0\0",
    b"MM\0*\0\0\0\x08",
    b"II+\0\x08\0\0\0",
    b"BM",
    b"GIF89a",
    b"\0\0\0\x1cftypavif",
    b"%!PS-Adobe-3.0 EPSF-3.0\n",
    b"P6\n",
]


@settings(max_examples=EXAMPLES)
@given(magic=st.sampled_from(MAGIC), data=st.binary(max_size=400))
def test_arbitrary_bytes_behind_a_beginning_of_each_format(silent, magic: bytes, data: bytes):
    read_all(magic + data)


@settings(max_examples=2 * EXAMPLES)
@given(data=mutated())
def test_arbitrary_mutations_of_good_files(silent, data: bytes):
    read_all(data)


@settings(max_examples=EXAMPLES)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "WEBP"]),
    blob=st.binary(max_size=300),
    order=st.sampled_from([b"", b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08"]),
)
def test_arbitrary_exif_leaves_the_pixels_alone(silent, kind: str, blob: bytes, order: bytes):
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(noise(20, 20), kind, exif=b"Exif\0\0" + order + blob, **lossless)
    Path("some.bin").write_bytes(data)
    pixels = np.asarray(read_rgb("some.bin"), int)
    expected = np.asarray(read_rgb(encoded(noise(20, 20), kind, **lossless)), int)
    turned = [np.rot90(flipped, turns) for flipped in (expected, expected[:, ::-1]) for turns in range(4)]
    assert any((pixels == one).all() for one in turned), "only ever turned"


@settings(max_examples=EXAMPLES)
@given(
    blob=st.binary(max_size=300)
    | st.integers(0, 255).map(lambda n: profile(1.5).replace(b"curv", bytes([n] * 4)))
)
def test_arbitrary_profiles(silent, blob: bytes):
    read_all(encoded(noise(20, 20), "PNG", icc_profile=blob))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.sampled_from(sorted(RECORD)), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=EXAMPLES)
@given(value=json_values, place=st.sampled_from(["png", "jpg", "webp", "tiff", "json"]))
def test_arbitrary_records(silent, value: object, place: str):
    """A record that is no record, or one with anything in it, wherever it stands."""
    for record in (value, {**RECORD, "content": value}):
        Result(noise(20, 20), record, {}).save(f"out.{place if place != 'json' else 'png'}", overwrite=True)  # type: ignore[arg-type]
        if place != "json":
            Path("out.json").unlink()
        try:
            assert read_provenance(f"out.{place}").keys() >= RECORD.keys()
        except InputError as error:
            assert f"out.{place}" in str(error)


@settings(max_examples=EXAMPLES)
@given(text=st.binary(max_size=80) | st.text(max_size=80).map(lambda t: t.encode(errors="replace")))
def test_arbitrary_sidecars(silent, text: bytes):
    Path("out.json").write_bytes(text)
    only_input_errors(lambda: read_provenance("out.json"), "out.json")
    cut = json.dumps(RECORD).encode()[: len(text)]
    Path("out.json").write_bytes(cut + text)
    only_input_errors(lambda: read_provenance("out.json"), "out.json")
