"""mast replay: the same bits from the picture's own record, or a plain word on why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

PLAIN = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png@0.7")
MAPPED = ("photo.png", "--map", "map.png", "-s", "#ff0000=a.png", "-s", "#00ff00=b.png")


def rewrite(name: str, image: Image.Image, text: str) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_itxt("mast", text)
    image.save(name, pnginfo=info)


def edit_record(change) -> None:
    """Changes the record of out.png, in the picture."""
    record = json.loads(Image.open("out.png").text["mast"])
    change(record)
    rewrite("out.png", Image.open("out.png"), json.dumps(record))


@pytest.mark.parametrize("regions", [PLAIN, MAPPED], ids=["masks", "map"])
@pytest.mark.parametrize("name", ["out.png", "out.json"])
def test_a_picture_is_made_again_bit_by_bit(run, stylize, regions: tuple[str, ...], name: str):
    assert stylize(*regions, "-o", "out.png", "--pi", 0.7, "--tau", 2).code == 0
    outcome = run("replay", name)
    assert outcome.code == 0, outcome
    assert outcome.lines[-1] == "out.png: bit-equal"


def test_a_picture_painted_in_windows_too_whatever_memory_there_is(run, model: Path, monkeypatch):
    from mast.pipeline import windows

    settings = ("--model", model, "--steps", 3, "--size", 192)
    with monkeypatch.context() as patch:
        patch.setattr(windows, "free_bytes", lambda device: 0)
        made = run("stylize", *PLAIN, "-o", "out.png", *settings)
    assert made.code == 0 and "192 px are painted in 2 overlapping windows of 128 px" in made.err
    assert json.loads(Path("out.json").read_text())["settings"]["windows"] == 128
    assert run("replay", "out.png").lines[-1] == "out.png: bit-equal"


def test_without_any_cache_too(run, stylize, own_cache: Path):
    stylize(*PLAIN, "-o", "out.png")
    shutil.rmtree(own_cache)
    assert run("replay", "out.png").code == 0


@pytest.mark.parametrize("regions", [PLAIN, MAPPED], ids=["masks", "map"])
def test_inputs_that_moved_are_found_beside_the_picture(run, stylize, folder: Path, regions: tuple[str, ...]):
    stylize(*regions, "-o", "out.png")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for path in folder.glob("*.*"):
        path.rename(elsewhere / path.name)
    assert run("replay", "elsewhere/out.png").code == 0
    (elsewhere / "b.png").unlink()
    outcome = run("replay", "elsewhere/out.png")
    assert outcome.code == 2
    assert "b.png: the style image is not there any more; put it back or beside the picture" in outcome.err


@pytest.mark.parametrize(
    ("name", "what"), [("photo.png", "photo"), ("left.png", "mask"), ("b.png", "style image")]
)
def test_an_input_that_changed_is_refused(refused, stylize, name: str, what: str):
    stylize(*PLAIN, "-o", "out.png")
    with Path(name).open("ab") as file:
        file.write(b"\0")
    line = refused("replay", "out.png")
    assert f"{name}: the {what} has changed since the picture was made; put the old file back" in line


def test_a_changed_pixel_is_seen(run, stylize):
    stylize(*PLAIN, "-o", "out.png")
    image, text = Image.open("out.png"), Image.open("out.png").text["mast"]
    red, green, blue = image.getpixel((3, 4))
    image.putpixel((3, 4), ((red + 100) % 256, green, blue))
    rewrite("out.png", image, text)
    outcome = run("replay", "out.png")
    assert outcome.code == 1
    assert outcome.lines[-1].startswith("out.png: not equal; 0.0% of the pixels differ, by at most 1")
    report = run("replay", "out.png", "--json", "-q")
    assert report.code == 1 and report.err == ""
    found = json.loads(report.out)
    assert found["equal"] is False and found["largest_difference"] in (100, 156)
    assert found["pixels_differing"] == pytest.approx(1 / (96 * 64))


def test_the_new_picture_can_be_kept_and_has_the_same_record(run, stylize, refused):
    stylize(*PLAIN, "-o", "out.png")
    assert run("replay", "out.png", "-o", "again.png", "--json").code == 0
    assert Path("again.png").read_bytes() == Path("out.png").read_bytes()
    assert Path("again.json").read_text() == Path("out.json").read_text()
    assert "again.png: exists already and is kept" in refused("replay", "out.png", "-o", "again.png")


def test_pictures_without_a_usable_record(refused, stylize):
    assert "photo.png: carries no record of how it was made; give a picture" in refused("replay", "photo.png")
    assert "gone.png: no such file" in refused("replay", "gone.png")
    assert "gone.json: no such file" in refused("replay", "gone.json")
    for text, says in {"[]": "this is no record of mast", "{": "damaged", "": "damaged"}.items():
        Path("x.json").write_text(text)
        assert f"x.json: {says}" in refused("replay", "x.json")
    Path("photo.json").write_text("[]")
    assert "photo.png: carries no record" in refused("replay", "photo.png"), "what is beside it is another's"


def test_records_of_another_version_or_model(refused, stylize):
    stylize("photo.png", "-r", "=a.png", "-o", "out.png")
    edit_record(lambda record: record["settings"].update(brush="broad"))
    line = refused("replay", "out.png")
    assert "out.png: the record has a setting that this version does not know" in line
    assert "'brush'" in line and "replay it with mast 0" in line
    edit_record(lambda record: record["settings"].pop("brush"))
    edit_record(lambda record: record["model"].update(fingerprint="0" * 16))
    assert "its weights are not those the picture was made with" in refused("replay", "out.png")
    edit_record(lambda record: record.pop("dtype"))
    assert "its record is not of this version (dtype)" in refused("replay", "out.png")


def test_a_record_fetches_nothing_unasked(refused, stylize, monkeypatch: pytest.MonkeyPatch):
    def reached(*_: object, **__: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", reached)
    monkeypatch.setattr("huggingface_hub.file_download.get_hf_file_metadata", reached)
    stylize("photo.png", "-r", "=a.png", "-o", "out.png")
    edit_record(lambda record: record["model"].update(name="stranger/model"))
    line = refused("replay", "out.png")
    assert "stranger/model" in line and "--allow-download" in line


def test_a_record_whose_picture_is_gone(refused, stylize):
    stylize("photo.png", "-r", "=a.png", "-o", "out.png")
    Path("out.png").unlink()
    assert "out.png: no such file, so there is nothing to compare with" in refused("replay", "out.json")
