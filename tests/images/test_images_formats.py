"""Formats and kinds of pixels: only the formats we mean, and every kind of them with the right colours."""

from __future__ import annotations

import gc
import io
import os
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from mast.images import FORMATS, read_mask, read_photo, read_rgb
from mast.job import InputError
from tests.damaged import encoded, noise
from tests.images.kinds import SRGB_PRIMARIES, png16, png_chunk, profile, tiff

ROOT = Path(__file__).parents[2]
WIDE_PRIMARIES = ((0.6097, 0.3111, 0.0195), (0.2053, 0.6257, 0.0609), (0.1492, 0.0632, 0.7446))  # Adobe RGB's


# ------------------------------------------------------------------------------------------------ formats


def test_a_picture_that_is_postscript_starts_no_program(monkeypatch):
    """Pillow hands such a file to Ghostscript, if there is one, whatever the file calls itself."""
    Path("bin").mkdir()
    Path("bin/gs").write_text("#!/bin/sh\ntouch started\n")
    os.chmod("bin/gs", 0o755)
    monkeypatch.setenv("PATH", f"{Path('bin').absolute()}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # whether there is one is asked once
    Path("photo.jpg").write_bytes(encoded(noise(), "EPS"))
    for read in (read_rgb, read_mask):
        with pytest.raises(InputError, match=r"photo\.jpg: not a picture that can be read; use PNG, JPEG"):
            read("photo.jpg")
    assert not Path("started").exists()


@pytest.mark.parametrize("kind", ["PPM", "TGA", "ICO", "PCX", "SGI", "DDS", "JPEG2000", "PDF", "IM", "QOI"])
def test_other_formats_are_refused_whatever_they_are_called(kind: str):
    Path("photo.png").write_bytes(encoded(noise(), kind))
    with pytest.raises(InputError, match="not a picture that can be read"):
        read_rgb("photo.png")


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "MPO"])
def test_our_formats_are_read_whatever_they_are_called(kind: str):
    Path("photo.xyz").write_bytes(encoded(noise(32, 24), kind))
    assert read_rgb("photo.xyz").size == (32, 24)


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "examples/photos").glob("*.jpg")))
def test_ordinary_photos_are_read_as_pillow_reads_them(name: str):
    path = ROOT / "examples/photos" / name
    assert (np.asarray(read_rgb(path)) == np.asarray(Image.open(path).convert("RGB"))).all()


def test_pages_are_told_from_frames():
    pages = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]
    pages[0].save("scan.tiff", save_all=True, append_images=pages[1:])
    with pytest.raises(InputError, match=r"scan\.tiff: a file of 2 pages; save the one you want as a PNG"):
        read_rgb("scan.tiff")


@pytest.mark.parametrize("read", [read_rgb, read_mask])
def test_what_is_no_file_is_refused_at_once(read):
    os.mkfifo("photo.png")
    with pytest.raises(InputError, match=r"photo\.png: this is a pipe"):
        read("photo.png")
    with pytest.raises(InputError, match="/dev/zero: this is a device"):
        read("/dev/zero")


def test_a_file_larger_than_any_picture_is_refused_unread():
    with open("large.png", "wb") as file:
        file.write(encoded(noise()))
        file.truncate(3 << 30)
    with pytest.raises(InputError, match=r"large\.png: 3,221,225,472 bytes are too many; shrink"):
        read_rgb("large.png")


# ------------------------------------------------------------------------------------------------ EXIF


def exif_of(*entries: tuple[int, int, int, bytes], order: str = "<", more: bytes = b"") -> bytes:
    """EXIF with these (tag, type, count, value or offset), good or bad."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    body = b"".join(struct.pack(f"{order}HHI", *entry[:3]) + entry[3].ljust(4, b"\0") for entry in entries)
    return b"Exif\0\0" + mark + struct.pack(f"{order}IH", 8, len(entries)) + body + bytes(4) + more


BROKEN_EXIF = {
    "empty": b"Exif\0\0",
    "no header": b"Exif\0\0rubbish rubbish rubbish",
    "cut": exif_of((0x0112, 3, 1, b"\1\0"))[:20],
    "beyond the end": b"Exif\0\0II*\0" + struct.pack("<I", 1 << 30),
    "unknown types": exif_of((0x0112, 99, 1, b"\6\0"), (0x8769, 77, 5, b"\1\2\3\4")),
    "orientation as text": exif_of((0x0112, 2, 2, b"6\0")),
    "orientation as many": exif_of((0x0112, 3, 4000, b"\0\1\0\0")),
    "orientation out of range": exif_of((0x0112, 3, 1, struct.pack("<H", 9000))),
    "huge tag": exif_of((0x010E, 2, 0xFFFFFFFF, b"\0\0\0\1")),
    "folder in itself": exif_of((0x8769, 4, 1, b"\x08\0\0\0")),
    "rational by nought": exif_of((0x011A, 5, 1, b"\x1a\0\0\0"), more=bytes(8)),
}


@pytest.mark.parametrize("name", BROKEN_EXIF)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_that_cannot_be_parsed_does_not_stop_a_good_photo(kind: str, name: str, capfd):
    picture = noise(32, 24)
    data = encoded(picture, kind, exif=BROKEN_EXIF[name], **({"lossless": True} if kind == "WEBP" else {}))
    Path("photo.bin").write_bytes(data)
    plain = encoded(picture, kind, **({"lossless": True} if kind == "WEBP" else {}))
    gc.collect()  # what other tests left behind is not ours to be warned of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen, mask = read_rgb("photo.bin"), read_mask("photo.bin")
    assert (np.asarray(seen) == np.asarray(Image.open(io.BytesIO(plain)).convert("RGB"))).all()
    assert mask.shape == (24, 32) and capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("value", range(1, 9))
def test_every_orientation_is_honoured(kind: str, value: int):
    exif = Image.Exif()
    exif[0x0112] = value
    Path("photo.bin").write_bytes(encoded(noise(32, 24), kind, exif=exif))
    expected = ImageOps.exif_transpose(Image.open("photo.bin")).convert("RGB")
    assert read_rgb("photo.bin").size == ((24, 32) if value >= 5 else (32, 24))
    assert (np.asarray(read_rgb("photo.bin")) == np.asarray(expected)).all()


@pytest.mark.parametrize("order", ["<", ">"])
def test_orientation_is_found_in_exif_that_is_broken_elsewhere(order: str):
    tags = ((0x0112, 3, 1, struct.pack(f"{order}H", 6)), (0x0132, 2, 0xFFFFFF, b"\xff\xff\xff\x7f"))
    Path("photo.jpg").write_bytes(encoded(noise(32, 24), "JPEG", exif=exif_of(*tags, order=order)))
    assert read_rgb("photo.jpg").size == (24, 32)


def test_a_picture_object_with_broken_exif_is_a_picture():
    image = noise(32, 24)
    image.info["exif"] = BROKEN_EXIF["no header"]
    assert (np.asarray(read_rgb(image)) == np.asarray(noise(32, 24))).all()


def test_damaged_tiffs_are_silent(capfd):
    """libtiff writes to the screen past Python."""
    whole = encoded(noise(), "TIFF", compression="tiff_lzw")
    for position in range(8, 1000, 90):
        Path("photo.tiff").write_bytes(whole[:position] + b"\xff\x00\xff" + whole[position + 3 :])
        try:
            read_rgb("photo.tiff")
        except InputError:
            pass
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------------------------------------ numbers


def ramp(channels: int, dtype: str = "u2", top: float = 65535) -> np.ndarray:
    values = np.linspace(0, top, 24 * 32 * channels).reshape(24, 32, channels)
    return values.astype(dtype)


@pytest.mark.parametrize("write", [png16, tiff])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_16_bits_a_channel_are_read(write, channels: int):
    pixels = ramp(channels)
    if channels == 4:
        pixels[..., 3] = 65535
    Path("deep.bin").write_bytes(write(pixels))
    seen = np.asarray(read_rgb("deep.bin")).astype(int)
    assert np.abs(seen - pixels[..., :3] / 257).max() <= 1


def test_a_16_bit_grey_with_a_transparent_level_keeps_its_depth():
    pixels = ramp(1)
    level = int(pixels[5, 5, 0])
    Path("deep.png").write_bytes(png16(pixels, png_chunk(b"tRNS", struct.pack(">H", level))))
    rgb, alpha = read_photo("deep.png")
    assert np.asarray(alpha)[5, 5] == 0 and (np.asarray(alpha) == 0).sum() == 1
    assert rgb.getpixel((5, 5)) == (255, 255, 255) and rgb.getpixel((0, 0)) == (0, 0, 0)
    mask = read_mask("deep.png")
    assert mask[5, 5] == 0 and mask[-1, -1] == 1


@pytest.mark.parametrize("dtype", ["u1", "u2"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_arrays_of_8_and_16_bits_mean_the_same(dtype: str, channels: int):
    pixels = ramp(channels, dtype, 255 if dtype == "u1" else 65535)
    expected = (pixels if dtype == "u1" else np.round(pixels / 257)).astype(int)
    rgb, alpha = read_photo(pixels)
    if channels == 4:
        assert (np.asarray(alpha) == expected[..., 3]).all()
    else:
        assert (np.asarray(rgb) == expected).all()


@pytest.mark.parametrize("scale", [1, 255, 65535])
def test_float_tiffs_are_scaled_by_what_they_hold(scale: float):
    pixels = np.linspace(0, scale, 24 * 32, dtype=np.float32).reshape(24, 32, 1)
    Path("float.tiff").write_bytes(tiff(pixels))
    assert np.allclose(read_mask("float.tiff"), pixels[..., 0] / scale, atol=1e-6)
    assert np.abs(np.asarray(read_rgb("float.tiff"))[..., 0] - pixels[..., 0] / scale * 255).max() <= 0.51


@pytest.mark.parametrize("read", [read_rgb, read_mask])
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([np.nan], "not numbers"),
        ([np.inf], "not numbers"),
        ([-np.inf], "not numbers"),
        ([np.nan, 200.0], "not numbers"),
        ([-0.5], "run from -0.5 to 1; scale them"),
        ([-0.5, 200], "run from -0.5 to 200; scale them"),
        ([1.5], "run from 0 to 1.5; scale them"),
        ([1e9], "run from 0 to 1e[+]09; scale them"),
    ],
)
def test_numbers_that_are_no_brightness_are_refused_by_name(read, values: list[float], says: str):
    pixels = np.ones((24, 32, 1), np.float32)
    pixels[0, 0] = 0
    pixels[3, 3 : 3 + len(values), 0] = values
    Path("float.tiff").write_bytes(tiff(pixels))
    with pytest.raises(InputError, match=rf"^float\.tiff: .*{says}"):
        read("float.tiff")


@pytest.mark.parametrize(("dtype", "value"), [("i2", -3), ("i4", -3), ("i4", 1 << 20)])
@pytest.mark.parametrize("read", [read_rgb, read_mask])
def test_whole_numbers_below_nought_or_beyond_16_bits_are_refused(read, dtype: str, value: int):
    pixels = np.full((24, 32, 1), 7, dtype)
    pixels[2, 2] = value
    Path("deep.tiff").write_bytes(tiff(pixels))
    with pytest.raises(InputError, match=r"deep\.tiff: its values run from"):
        read("deep.tiff")


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "La", "RGBa", "PA"]
)
def test_picture_objects_of_every_mode_are_read(mode: str):
    if mode in ("La", "RGBa", "PA", "P"):
        base = {"La": "LA", "RGBa": "RGBA", "PA": "P", "P": "L"}[mode]
        image = Image.new(base, (32, 24), 0).convert(mode)
    else:
        image = Image.new(mode, (32, 24))
    try:
        assert read_rgb(image).mode == "RGB"
    except InputError as error:  # an older Pillow knows no way from LAB
        assert mode == "LAB", error
    if mode != "LAB":
        assert read_mask(image).shape == (24, 32)


# ------------------------------------------------------------------------------------------------ profiles


def to_linear(levels: np.ndarray) -> np.ndarray:
    values = levels / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_colours_are_read_as_their_profile_means_them(kind: str):
    """Brightness stored without gamma: sRGB shows 188 for half the light, which such a file holds as 128."""
    pytest.importorskip("PIL.ImageCms")
    data = encoded(Image.new("RGB", (32, 32), (128, 128, 128)), kind, icc_profile=profile(1.0))
    Path("linear.bin").write_bytes(data)
    assert np.abs(np.asarray(read_rgb("linear.bin")).astype(int) - 188).max() <= 2
    assert np.abs(to_linear(np.asarray(read_rgb("linear.bin"))) - 128 / 255).max() < 0.02


def test_a_wide_gamut_becomes_more_colourful_in_srgb():
    pytest.importorskip("PIL.ImageCms")
    Image.new("RGB", (32, 32), (100, 180, 100)).save("wide.png", icc_profile=profile(2.2, WIDE_PRIMARIES))
    red, green, blue = read_rgb("wide.png").getpixel((5, 5))
    assert red < 90 and abs(green - 180) < 6 and green - blue > 75


@pytest.mark.parametrize("mode", ["L", "LA", "P"])
def test_profiles_of_greys_and_palettes_are_honoured(mode: str):
    pytest.importorskip("PIL.ImageCms")
    made = profile(1.0) if mode == "P" else profile(1.0, ())
    Image.new("L", (32, 32), 128).convert(mode).save("grey.png", icc_profile=made)
    assert np.abs(np.asarray(read_rgb("grey.png")).astype(int) - 188).max() <= 2


def test_a_transparent_picture_has_its_colours_converted_and_its_alpha_kept():
    pytest.importorskip("PIL.ImageCms")
    image = Image.new("RGBA", (32, 32), (128, 128, 128, 255))
    image.paste((128, 128, 128, 0), (0, 0, 16, 32))
    image.save("clear.png", icc_profile=profile(1.0))
    rgb, alpha = read_photo("clear.png")
    assert rgb.getpixel((3, 3)) == (255, 255, 255) and abs(rgb.getpixel((20, 3))[0] - 188) <= 2
    assert alpha.getpixel((3, 3)) == 0 and alpha.getpixel((20, 3)) == 255


def test_srgb_under_any_name_changes_no_bit():
    ImageCms = pytest.importorskip("PIL.ImageCms")
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    picture = noise()
    picture.save("tagged.png", icc_profile=srgb)
    assert (np.asarray(read_rgb("tagged.png")) == np.asarray(picture)).all()
    picture.save("tagged.jpg", icc_profile=srgb)
    picture.save("plain.jpg")
    assert (np.asarray(read_rgb("tagged.jpg")) == np.asarray(read_rgb("plain.jpg"))).all()


@pytest.mark.parametrize(
    "damaged",
    [b"x", bytes(200), profile(1.0)[:150], profile(1.0, ()), profile(1.0).replace(b"RGB ", b"CMYK")],
    ids=["a byte", "noughts", "cut", "of grey", "of inks"],
)
def test_a_profile_that_cannot_be_used_is_passed_over(damaged: bytes):
    picture = noise()
    picture.save("photo.png", icc_profile=damaged)
    assert (np.asarray(read_rgb("photo.png")) == np.asarray(picture)).all()


def test_a_profile_of_rgb_on_inks_is_passed_over():
    inks = Image.new("CMYK", (32, 32), (0, 255, 255, 0))
    inks.save("plain.jpg", quality=95)
    inks.save("tagged.jpg", quality=95, icc_profile=profile(1.0))
    assert (np.asarray(read_rgb("plain.jpg")) == np.asarray(read_rgb("tagged.jpg"))).all()


def test_masks_and_maps_are_numbers_and_have_no_profile():
    grey = Image.new("L", (32, 32), 128)
    grey.save("plain.png")
    grey.save("tagged.png", icc_profile=profile(1.0, ()))
    assert (read_mask("plain.png") == read_mask("tagged.png")).all()
    Image.new("RGB", (32, 32), (128, 64, 10)).save("map.png", icc_profile=profile(1.0, SRGB_PRIMARIES))
    assert read_mask("map.png#80400a").min() == 1
