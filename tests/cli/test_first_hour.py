"""The first hour of a new user: photos of odd kinds end in a picture, or in words that say what to do."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import read_provenance
from tests.images.kinds import png16
from tests.tiny import halves, picture

pytestmark = pytest.mark.usefixtures("warm_cache")


def rotated(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # held upright, saved lying
    picture(96, 64, 1).save(path, exif=exif)


def transparent(path: Path) -> None:
    photo = picture(96, 64, 1).convert("RGBA")
    photo.putalpha(Image.fromarray((halves(96, 64)[0] * 255).astype(np.uint8)))
    photo.save(path)


KINDS = {
    "transparent.png": transparent,
    "cmyk.jpg": lambda path: picture(96, 64, 1).convert("CMYK").save(path),
    "sixteen.png": lambda path: path.write_bytes(png16(np.asarray(picture(96, 64, 1), np.uint16) * 257)),
    "grey16.png": lambda path: Image.fromarray(np.arange(64 * 96, dtype=np.uint16).reshape(64, 96) * 10).save(
        path
    ),
    "rotated.jpg": rotated,
    "palette.gif": lambda path: picture(96, 64, 1).quantize(16).save(path),
    "small.png": lambda path: picture(40, 30, 1).save(path),
    "large.jpg": lambda path: picture(3000, 2000, 1).save(path),
    "panorama.jpg": lambda path: picture(1200, 150, 1).save(path),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_photo_of_any_kind_ends_in_a_picture_of_its_size(stylize, folder, name):
    KINDS[name](folder / name)
    done = stylize(name, "-r", "a.png", "-o", "out.png")
    assert done.code == 0, done.err
    with Image.open(folder / name) as photo, Image.open(folder / "out.png") as out:
        assert out.size == (photo.size[::-1] if name == "rotated.jpg" else photo.size)
        assert ("A" in out.getbands()) == (name == "transparent.png")
        if name == "transparent.png":
            assert np.array_equal(np.asarray(out)[..., 3], np.asarray(photo)[..., 3]), "what was clear stays"
    if name == "large.jpg":
        assert "fine detail is lost" in done.err, "mush is not made without a word"


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty.jpg", b"", "empty"),
        ("text.png", b"not a picture", "not a picture"),
        ("page.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "not a picture"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
    ],
)
def test_what_is_no_photo_is_refused_in_words(refused, folder, name, data, says):
    (folder / name).write_bytes(data)
    message = refused("stylize", name, "-r", "a.png", "-o", "out.png")
    assert name in message and says in message


@pytest.mark.parametrize("region", ["a.png", "rest=a.png", "=a.png"])
def test_three_ways_to_say_what_is_left_over_are_one(stylize, folder, region):
    done = stylize("photo.png", "-r", "left.png=b.png", "-r", region, "-o", "out.png")
    assert done.code == 0, done.err
    assert read_provenance(folder / "out.png")["regions"][1]["mask"] is None


def test_what_no_region_covers_stays_as_it_is_to_the_bit(stylize, folder):
    done = stylize("photo.png", "-r", "left.png=a.png", "-o", "out.png")
    assert done.code == 0, done.err
    outside = np.asarray(Image.open("left.png")) == 0
    photo, out = (np.asarray(Image.open(name).convert("RGB")) for name in ("photo.png", "out.png"))
    assert np.array_equal(photo[outside], out[outside]) and not np.array_equal(photo, out)
    kept = ("--keep-unassigned", "reconstruct")
    paper = stylize("photo.png", "-r", "left.png=a.png", "-o", "paper.png", *kept)
    assert paper.code == 0, paper.err
    assert not np.array_equal(photo[outside], np.asarray(Image.open("paper.png").convert("RGB"))[outside])


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".tif"])
def test_a_picture_of_any_kind_carries_its_record_and_none_where_none_is_wanted(stylize, folder, suffix):
    assert stylize("photo.png", "-r", "a.png", "-o", f"out{suffix}").code == 0
    assert read_provenance(folder / f"out{suffix}")["content"]["path"] == "photo.png"
    assert stylize("photo.png", "-r", "a.png", "-o", f"bare{suffix}", "--no-metadata").code == 0
    assert not (folder / "bare.json").exists()
    assert b"sha256" not in (folder / f"bare{suffix}").read_bytes()


def test_make_it_again_compare_and_measure_where_it_was_made(stylize, run, folder, model):
    assert stylize("photo.png", "-r", "left.png=a.png", "-r", "b.png", "-o", "out.png").code == 0
    replayed = run("replay", "out.png")
    assert replayed.code == 0 and "bit-equal" in replayed.err
    assert str(folder) not in (folder / "out.json").read_text(), "nobody's home is in it"
