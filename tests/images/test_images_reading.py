"""Every kind of good file becomes 8-bit RGB, or a mask from 0 to 1, with the right values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import colour_of, read_mask, read_rgb, split_colour

HALF = np.zeros((32, 48), np.uint8)
HALF[:, :24] = 255


def rgb_at(name: str, x: int, y: int) -> tuple[int, ...]:
    image = read_rgb(name)
    assert image.mode == "RGB"
    return image.getpixel((x, y))


def sixteen_bits(name: str = "deep.png") -> np.ndarray:
    ramp = np.linspace(0, 65535, 32 * 48).astype(np.uint16).reshape(32, 48)
    Image.fromarray(ramp).save(name)
    return ramp


# -------------------------------------------------------------------------------- colours


def test_rgb_is_read_as_it_is():
    pixels = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("plain.png")
    assert (np.asarray(read_rgb("plain.png")) == pixels).all()
    assert (np.asarray(read_rgb(pixels)) == pixels).all()
    assert (np.asarray(read_rgb(Image.fromarray(pixels))) == pixels).all()
    assert (np.asarray(read_rgb(pixels.astype(np.float64) / 255)) == pixels).all()


def test_cmyk_is_converted():
    Image.new("CMYK", (32, 32), (0, 255, 255, 0)).save("ink.jpg", quality=95)
    assert Image.open("ink.jpg").mode == "CMYK"
    assert np.abs(np.array(rgb_at("ink.jpg", 16, 16)) - (255, 0, 0)).max() <= 4


def test_16_bits_are_scaled_and_not_clipped():
    ramp = sixteen_bits()
    assert Image.open("deep.png").mode.startswith("I")
    grey = np.asarray(read_rgb("deep.png"))
    assert (grey == np.round(ramp / 65535 * 255).astype(np.uint8)[..., None]).all()


def test_a_palette_is_looked_up():
    image = Image.new("P", (32, 32), 1)
    image.putpalette([0, 0, 0, 10, 200, 30])
    image.save("palette.png")
    assert rgb_at("palette.png", 5, 5) == (10, 200, 30)


def test_transparency_is_laid_on_white():
    rgba = Image.new("RGBA", (32, 32), (200, 0, 0, 255))
    rgba.paste((0, 0, 0, 0), (16, 0, 32, 32))
    rgba.paste((0, 0, 0, 128), (0, 16, 16, 32))
    rgba.save("rgba.png")
    assert rgb_at("rgba.png", 4, 4) == (200, 0, 0)
    assert rgb_at("rgba.png", 24, 4) == (255, 255, 255)
    assert rgb_at("rgba.png", 4, 24) == (127, 127, 127)

    Image.merge("LA", (Image.new("L", (32, 32), 90), Image.new("L", (32, 32), 0))).save("la.png")
    assert rgb_at("la.png", 4, 4) == (255, 255, 255)

    palette = Image.new("P", (32, 32), 1)
    palette.putpalette([0, 0, 0, 10, 200, 30])
    palette.paste(0, (16, 0, 32, 32))
    palette.save("clear.png", transparency=0)
    assert rgb_at("clear.png", 4, 4) == (10, 200, 30)
    assert rgb_at("clear.png", 24, 4) == (255, 255, 255)


def test_a_gif_of_one_frame_is_a_picture():
    Image.new("RGB", (32, 32), (0, 0, 255)).save("still.gif")
    assert rgb_at("still.gif", 3, 3) == (0, 0, 255)


def test_a_camera_jpeg_with_a_preview_behind_it_is_a_picture():
    first, second = Image.new("RGB", (64, 48), (250, 0, 0)), Image.new("RGB", (32, 24), (0, 0, 250))
    first.save("camera.jpg", "MPO", save_all=True, append_images=[second])
    assert Image.open("camera.jpg").n_frames == 2
    image = read_rgb("camera.jpg")
    assert image.size == (64, 48) and image.getpixel((9, 9))[0] > 240


@pytest.mark.parametrize("name", ["turned.png", "turned.jpg"])
def test_exif_rotation_is_honoured_for_photos_and_masks(name: str):
    """Stored on its side with the tag that says so; people see 48x32 with the left half white."""
    stored = Image.fromarray(HALF).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    stored.save(name, exif=exif)
    assert Image.open(name).size == (32, 48)
    seen = np.asarray(read_rgb(name))
    assert seen.shape == (32, 48, 3) and np.abs(seen[..., 0].astype(int) - HALF).max() <= 3
    assert np.abs(read_mask(name) * 255 - HALF).max() <= 3


# -------------------------------------------------------------------------------- masks


@pytest.mark.parametrize("kind", ["L", "RGB", "1", "P", "RGBA", "LA"])
def test_white_on_black_means_the_same_in_every_mode(kind: str):
    Image.fromarray(HALF).convert(kind).save("mask.png")
    mask = read_mask("mask.png")
    assert mask.dtype == np.float32
    assert (mask == HALF / 255).all()


def test_soft_values_survive():
    ramp = np.tile(np.arange(0, 240, 5, dtype=np.uint8), (32, 1))
    Image.fromarray(ramp).save("soft.png")
    assert np.allclose(read_mask("soft.png"), ramp / 255)
    assert np.allclose(read_mask(ramp.astype(np.float32) / 255), ramp / 255)


def test_16_bit_masks_keep_their_depth():
    ramp = sixteen_bits()
    assert np.allclose(read_mask("deep.png"), ramp / 65535)


def test_a_mask_of_noughts_and_ones_is_understood():
    Image.fromarray(HALF // 255).save("ones.png")
    assert (read_mask("ones.png") == HALF / 255).all()
    assert (read_mask(HALF > 0) == HALF / 255).all()


def test_a_shape_on_a_transparent_ground_is_its_alpha_whatever_its_colour():
    for colour in ("white", "black", (200, 30, 60)):
        shape = Image.new("RGBA", (48, 32), (0, 0, 0, 0))
        shape.paste(Image.new("RGBA", (48, 32), colour), mask=Image.fromarray(HALF))
        shape.save("shape.png")
        assert (read_mask("shape.png") == HALF / 255).all()


def test_white_on_black_with_holes_is_both():
    grey, alpha = Image.fromarray(HALF), Image.new("L", (48, 32), 255)
    alpha.paste(0, (0, 0, 48, 16))
    Image.merge("LA", (grey, alpha)).save("both.png")
    mask = read_mask("both.png")
    assert (mask[:16] == 0).all() and (mask[16:] == HALF[16:] / 255).all()


def test_a_mask_that_is_transparent_all_over_is_empty():
    Image.new("RGBA", (48, 32), (255, 255, 255, 0)).save("clear.png")
    assert read_mask("clear.png").max() == 0


# -------------------------------------------------------------------------------- colours of a map


def test_one_colour_of_a_map_is_a_mask():
    pixels = np.zeros((32, 48, 3), np.uint8)
    pixels[:, :24] = (250, 4, 2)  # nearly red, as a JPEG or a brush leaves it
    Image.fromarray(pixels).save("map.png")
    assert (read_mask("map.png#ff0000") == HALF / 255).all()
    assert (read_mask("map.png#000000") == 1 - HALF / 255).all()


def test_a_file_whose_name_looks_like_a_colour_of_a_map_is_a_file():
    Image.fromarray(HALF).save("plain.png")
    Path("plain.png").rename("plain#ff0000")
    assert split_colour("plain#ff0000") == (Path("plain#ff0000"), None)
    assert split_colour("other#ff0000") == (Path("other"), (255, 0, 0))
    assert split_colour("shot#1.png") == (Path("shot#1.png"), None)


@pytest.mark.parametrize(
    ("text", "rgb"),
    [("#ff0080", (255, 0, 128)), ("FF0080", (255, 0, 128)), ("red", None), ("#ff008", None), ("", None)],
)
def test_colours_are_six_hex_digits(text: str, rgb: tuple[int, int, int] | None):
    assert colour_of(text) == rgb
