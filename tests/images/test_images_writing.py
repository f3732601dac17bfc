"""Outputs: checked before any work, whole or not there at all, and carrying how they were made."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mast.files import atomic, check_output
from mast.images import OUTPUTS, pad_to, read_provenance, read_rgb, to_array, to_tensor, work_size
from mast.job import InputError, Result

RECORD = {"content": {}, "regions": [], "settings": {"steps": 3}, "method": {"name": "mast"}, "é": "ü"}


def result() -> Result:
    return Result(Image.new("RGB", (20, 10), (1, 2, 3)), RECORD, {})


def test_a_saved_picture_carries_its_record_twice():
    result().save("out.png")
    assert Image.open("out.png").getpixel((0, 0)) == (1, 2, 3)
    assert (
        json.loads(Image.open("out.png").text["mast"]) == RECORD == json.loads(Path("out.json").read_text())
    )
    assert read_provenance("out.png") == read_provenance("out.json") == RECORD
    assert sorted(os.listdir()) == ["out.json", "out.png"]


def test_a_picture_that_lost_its_text_is_known_by_its_sidecar():
    result().save("out.png")
    Image.open("out.png").convert("RGB").save("out.png")
    assert "mast" not in Image.open("out.png").info
    assert read_provenance("out.png") == RECORD


@pytest.mark.parametrize("name", ["out.png", "out.json"])
def test_neither_the_picture_nor_its_sidecar_replaces_a_file_unasked(name: str):
    Path(name).write_bytes(b"mine")
    with pytest.raises(InputError, match=f"{name}: exists already and is kept"):
        result().save("out.png")
    assert Path(name).read_bytes() == b"mine" and os.listdir() == [name]
    result().save("out.png", overwrite=True)
    assert read_provenance("out.png") == RECORD


def test_an_interrupt_while_writing_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    picture = result()
    monkeypatch.setattr(Image.Image, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        picture.save("out.png")
    assert os.listdir() == []


def test_an_interrupt_while_overwriting_leaves_the_old_files(monkeypatch: pytest.MonkeyPatch):
    Path("old.png").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic(Path("old.png")) as part:
        part.write_bytes(b"new")
        raise KeyboardInterrupt
    assert Path("old.png").read_bytes() == b"old" and os.listdir() == ["old.png"]


def test_a_written_file_has_the_rights_the_umask_gives():
    before = os.umask(0o027)
    try:
        result().save("out.png")
    finally:
        os.umask(before)
    assert Path("out.png").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("out.jpg", r"out\.jpg: the output must end in \.png"),
        ("out", "must end in"),
        ("no/such/out.png", "no/such: no such folder; create it first"),
        ("file/out.png", "file is a file, not a folder"),
        ("folder.png", "this is a folder; give a file name"),
        ("/proc/out.png", "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_beforehand(path: str, says: str):
    Path("file").write_text("")
    Path("folder.png").mkdir()
    with pytest.raises(InputError, match=says):
        check_output(path)
    assert sorted(os.listdir()) == ["file", "folder.png"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused_beforehand():
    Path("locked").mkdir(mode=0o555)
    with pytest.raises(InputError, match="cannot be written"):
        check_output("locked/out.png")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xfe{}", "damaged"),
        (b"{", "damaged"),
        (b"[]", "no record of mast"),
        (b"{}", "no record of mast"),
        (b'"x"', "no record of mast"),
    ],
)
def test_a_record_that_is_none_is_refused(data: bytes, says: str):
    Path("out.json").write_bytes(data)
    with pytest.raises(InputError, match=says):
        read_provenance("out.json")


def test_a_record_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"gone\.json: no such file"):
        read_provenance("gone.json")
    Image.new("RGB", (20, 20)).save("plain.png")
    with pytest.raises(InputError, match=r"plain\.png: carries no record"):
        read_provenance("plain.png")


# -------------------------------------------------------------------------------- formats and records

LOSSLESS = (".png", ".webp", ".tif", ".tiff")


def noisy() -> Result:
    pixels = np.random.default_rng(3).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    return Result(Image.fromarray(pixels), RECORD, {})


@pytest.mark.parametrize("suffix", [*OUTPUTS, ".PNG", ".JPG"])
def test_the_suffix_is_the_format_and_the_record_is_inside_and_beside(suffix: str):
    made = noisy()
    made.save(f"out{suffix}")
    kinds = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".tif": "TIFF", ".tiff": "TIFF"}
    assert Image.open(f"out{suffix}").format == kinds[suffix.lower()]
    far = np.abs(np.asarray(read_rgb(f"out{suffix}"), int) - np.asarray(made.image, int))
    assert far.max() == 0 if suffix.lower() in LOSSLESS else far.mean() < 4
    assert json.loads(Path("out.json").read_text()) == RECORD
    Path("out.json").unlink()
    assert read_provenance(f"out{suffix}") == RECORD


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_two_equal_results_are_the_same_bytes(suffix: str):
    noisy().save(f"a{suffix}")
    noisy().save(f"b{suffix}")
    assert Path(f"a{suffix}").read_bytes() == Path(f"b{suffix}").read_bytes()


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_outputs_say_that_they_are_srgb(suffix: str):
    ImageCms = pytest.importorskip("PIL.ImageCms")
    noisy().save(f"out{suffix}")
    info = Image.open(f"out{suffix}").info
    if suffix == ".png":
        assert info["srgb"] == 0
    else:
        assert "sRGB" in ImageCms.getProfileDescription(io.BytesIO(info["icc_profile"]))


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_without_metadata_there_is_no_record_anywhere(suffix: str):
    record = {**RECORD, "content": {"path": "/home/somebody/secret.png"}}
    made = Result(noisy().image, record, {})
    made.save(f"out{suffix}", metadata=False)
    assert os.listdir() == [f"out{suffix}"]
    assert b"somebody" not in Path(f"out{suffix}").read_bytes()
    with pytest.raises(InputError, match="carries no record"):
        read_provenance(f"out{suffix}")


def test_without_metadata_the_record_of_the_picture_before_goes_and_other_files_stay():
    noisy().save("out.png")
    noisy().save("out.png", overwrite=True, metadata=False)
    assert os.listdir() == ["out.png"]
    Path("out.json").write_text('{"mine": 1}')
    noisy().save("out.png", overwrite=True, metadata=False)
    assert Path("out.json").read_text() == '{"mine": 1}'


@pytest.mark.parametrize("suffix", OUTPUTS)
def test_a_record_too_long_for_the_picture_is_beside_it(suffix: str):
    record = {**RECORD, "regions": ["x" * 1000] * 200}
    Result(noisy().image, record, {}).save(f"out{suffix}")
    assert read_provenance(f"out{suffix}") == record
    Path("out.json").unlink()
    if suffix in (".jpg", ".jpeg"):
        with pytest.raises(InputError, match="carries no record"):
            read_provenance(f"out{suffix}")
    else:
        assert read_provenance(f"out{suffix}") == record


@pytest.mark.parametrize("metadata", [True, False])
def test_of_two_runs_for_one_name_one_is_told_that_it_came_too_late(metadata: bool, monkeypatch):
    """Somebody else's picture appears after the check and before ours has its name: theirs is kept."""
    save = Image.Image.save

    def slow(image: Image.Image, *args: object, **options: object) -> None:
        save(image, *args, **options)  # type: ignore[arg-type]
        Path("out.png").write_bytes(b"theirs")

    monkeypatch.setattr(Image.Image, "save", slow)
    with pytest.raises(InputError, match=r"out\.png: exists already and is kept"):
        result().save("out.png", metadata=metadata)
    assert os.listdir() == ["out.png"] and Path("out.png").read_bytes() == b"theirs"


@pytest.mark.parametrize("suffix", [".jpg", ".webp", ".tiff"])
def test_the_comments_of_other_programs_are_no_record(suffix: str):
    exif = Image.Exif()
    exif[0x010E] = "Holiday, {2019}"
    exif.get_ifd(0x8769)[0x9286] = b"ASCII\0\0\0Steps: 20, Sampler: Euler"
    Image.new("RGB", (20, 20)).save(f"photo{suffix}", exif=exif)
    with pytest.raises(InputError, match="carries no record"):
        read_provenance(f"photo{suffix}")


def test_a_record_that_is_no_file_does_not_hang():
    os.mkfifo("out.json")
    with pytest.raises(InputError, match=r"out\.json: this is a pipe"):
        read_provenance("out.json")
    Image.new("RGB", (20, 20)).save("out.png")
    with pytest.raises(InputError, match="carries no record"):
        read_provenance("out.png")


def test_a_record_of_many_megabytes_is_refused():
    Path("out.json").write_text(json.dumps({**RECORD, "regions": "x" * (5 << 20)}))
    with pytest.raises(InputError, match=r"out\.json: more than 4 MB"):
        read_provenance("out.json")


@pytest.mark.parametrize("path", ["", ".", "/", "a\0b.png", "x" * 300 + ".png", "\ud800.png"])
def test_a_path_that_is_none_is_an_input_error(path: str):
    with pytest.raises(InputError):
        result().save(path)
    with pytest.raises(InputError):
        read_provenance(path)
    assert os.listdir() == []


# -------------------------------------------------------------------------------- sizes and tensors


@pytest.mark.parametrize(
    ("width", "height", "size", "fit", "inner", "canvas"),
    [
        (640, 480, 512, "resize", (512, 384), (512, 384)),
        (500, 333, 512, "resize", (512, 320), (512, 320)),
        (500, 333, 512, "pad", (512, 341), (512, 384)),
        (4000, 20, 512, "resize", (512, 64), (512, 64)),
        (4000, 20, 512, "pad", (512, 3), (512, 64)),
        (20, 20, 100, "pad", (100, 100), (128, 128)),
    ],
)
def test_pictures_are_fitted_to_whole_strides(width, height, size, fit, inner, canvas):
    assert work_size(width, height, size, 64, fit) == (inner, canvas)


def test_a_tensor_and_back_is_the_same_picture():
    pixels = np.random.default_rng(1).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    tensor = to_tensor(Image.fromarray(pixels), (24, 16), (32, 16))
    assert tensor.shape == (1, 3, 16, 32)
    assert tensor.min() >= -1 and tensor.max() <= 1
    back = to_array(tensor)
    assert (back[:, :24] == pixels).all()
    assert (back[:, 24:] == pixels[:, :15:-1]).all(), "the margin is the mirrored border"


def test_a_margin_wider_than_the_picture_repeats_its_edge():
    padded = pad_to(np.arange(6.0).reshape(2, 3), (3, 9))
    assert padded.shape == (9, 3) and (padded[2:] == padded[1]).all()


def test_values_beyond_the_range_are_clamped():
    assert to_array(torch.tensor([-3.0, 0.0, 3.0]).view(1, 3, 1, 1)).ravel().tolist() == [0, 128, 255]
