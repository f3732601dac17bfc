"""Many photos, one job: each is painted once whatever happens, and what fails is told at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.test_cli_cancel import stop
from tests.tiny import picture

JOB = """\
model = "{model}"
[settings]
steps = 3
size = 64
[[region]]
style = "a.png"
mask = "left.png"
[[region]]
style = "b.png"
"""
BATCH = ("stylize", "photos", "--job", "job.toml", "-o", "out")


@pytest.fixture
def photos(folder: Path, model: Path) -> Path:
    """photos/one.png, two.jpg, three.png (96x64), and job.toml for them."""
    (folder / "photos").mkdir()
    for number, name in enumerate(("one.png", "two.jpg", "three.png")):
        picture(96, 64, 10 + number).save(folder / "photos" / name)
    (folder / "job.toml").write_text(JOB.format(model=model))
    return folder / "photos"


def pixels(path: Path | str) -> np.ndarray:
    return np.asarray(Image.open(path))


def files(folder: str = "out") -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def times(folder: str = "out") -> dict[str, int]:
    return {name: (Path(folder) / name).stat().st_mtime_ns for name in files(folder)}


def whole(*names: str) -> set[str]:
    return {f"{name}.{suffix}" for name in names for suffix in ("png", "json")}


def test_a_folder_of_photos_is_painted_and_every_picture_replays(run, photos: Path):
    outcome = run(*BATCH)
    assert outcome.code == 0, outcome
    assert files() == whole("one", "two", "three")
    assert outcome.lines[-1] == "3 made, 0 were there already, 0 failed"
    assert [line.split()[0] for line in outcome.lines if line.split()[1:2] and "/3" in line] == [
        "1/3", "2/3", "3/3",
    ]  # fmt: skip
    for name in ("one", "two", "three"):
        assert run("replay", f"out/{name}.png").code == 0
    assert run("stylize", "photos/two.jpg", "--job", "job.toml", "-o", "alone.png").code == 0
    assert np.array_equal(pixels("alone.png"), pixels("out/two.png"))


@pytest.mark.parametrize(
    "named",
    [("photos/*.png",), ("photos/one.png", "photos/three.png"), ("phot*/**/*[en].png",)],
    ids=["pattern", "expanded", "deep"],
)
def test_patterns_by_us_and_by_the_shell(run, photos: Path, named: tuple[str, ...]):
    (photos / "notes.txt").write_text("not a photo")
    outcome = run("stylize", *named, "--job", "job.toml", "-o", "out", "--json", "-q")
    assert outcome.code == 0, outcome
    report = json.loads(outcome.out)
    assert [one["photo"] for one in report["pictures"]] == ["photos/one.png", "photos/three.png"]
    assert (report["made"], report["kept"], report["failed"]) == (2, 0, 0)


def test_regions_by_hand_for_many_photos(run, stylize, photos: Path):
    outcome = stylize("photos", "-r", "left.png=a.png", "-r", "b.png", "-o", "out", "--contact-sheet",
                      "--save-masks")  # fmt: skip
    assert outcome.code == 0, outcome
    beside = {
        f"{name}.{what}.png" for name in ("one", "two", "three") for what in ("sheet", "mask1", "mask2")
    }
    assert files() == whole("one", "two", "three") | beside


# ------------------------------------------------------------ going on


def test_what_is_finished_is_not_painted_again(run, photos: Path):
    assert run(*BATCH).code == 0
    before = times()
    (Path("out") / "two.png").unlink()
    outcome = run(*BATCH)
    assert outcome.code == 0 and outcome.lines[-1] == "1 made, 2 were there already, 0 failed"
    after = times()
    assert {name for name in before if after[name] != before[name]} == {"two.png", "two.json"}
    shutil.move("photos", "elsewhere")  # where a photo lies does not decide its picture
    assert run("stylize", "elsewhere", *BATCH[2:]).lines[-1].startswith("0 made, 3 were there already")


def test_a_picture_that_was_made_otherwise_is_kept_unless_it_may_go(run, photos: Path):
    assert run(*BATCH).code == 0
    before = times()
    picture(96, 64, 99).save(photos / "one.png")
    outcome = run(*BATCH)
    assert outcome.code == 2 and times() == before
    assert "failed: photos/one.png: out/one.png: is there and was made otherwise (content);" in outcome.err
    assert outcome.lines[-1] == "0 made, 2 were there already, 1 failed"
    outcome = run(*BATCH, "--steps", 2)
    assert outcome.code == 2 and outcome.err.count("was made otherwise (") == 3 and times() == before
    outcome = run(*BATCH, "--overwrite")
    assert outcome.code == 0 and outcome.lines[-1] == "1 made, 2 were there already, 0 failed"
    shutil.copy("a.png", "out/one.png")
    Path("out/one.json").unlink()
    outcome = run(*BATCH)
    assert outcome.code == 2 and "made otherwise (no record that can be read)" in outcome.err
    assert Path("out/one.png").read_bytes() == Path("a.png").read_bytes()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(calls: int, act: Callable[[], None]) -> Callable[..., None]:
    seen: list[int] = []

    def count() -> None:
        seen.append(1)
        if len(seen) == calls:
            act()

    return count


def in_the_second_photo() -> None:
    from mast.backbone.backbone import Backbone

    real, count = Backbone.predict, after(6, die)  # of 4 passes each: inversions are in the cache
    Backbone.predict = lambda *a: (count(), real(*a))[1]  # type: ignore[method-assign]


def between_record_and_picture() -> None:
    real, count = os.link, after(4, die)  # of the second photo: its record has its name, the picture not yet
    os.link = lambda *a, **k: (count(), real(*a, **k))[1]  # type: ignore[assignment]


def while_a_picture_is_written() -> None:
    real, calls = Image.Image.save, []

    def save(self, path, *a, **k) -> None:
        calls.append(1)
        if len(calls) == 2:
            Path(path).write_bytes(b"\x89PNG")
            die()
        real(self, path, *a, **k)

    Image.Image.save = save  # type: ignore[assignment]


def between_two_masks() -> None:
    from mast.regions import show

    real, count = show.mask_picture, after(4, die)
    show.mask_picture = lambda *a: (count(), real(*a))[1]  # type: ignore[assignment]


@pytest.mark.parametrize(
    "arm", [in_the_second_photo, between_record_and_picture, while_a_picture_is_written, between_two_masks]
)
def test_killed_and_started_again_it_has_the_same_bits(run, photos: Path, arm: Callable[[], None]):
    from mast.cli import main

    found = ("--auto", "2", "--segmenter", "colours") if arm is between_two_masks else ()
    assert run(*BATCH[:-1], "whole", *found).code == 0
    child = os.fork()
    if child == 0:
        try:
            os.close(2)
            sys.argv = ["mast", *BATCH, *found]
            arm()
            main()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was to be killed and was not"
    seen = [name for name in ("one", "three", "two") if Path(f"out/{name}.png").exists()]
    assert 0 < len(seen) < 3
    before = {name: Path(f"out/{name}.png").stat().st_mtime_ns for name in seen}
    outcome = run(*BATCH, *found)
    assert outcome.code == 0, outcome
    assert outcome.lines[-1] == f"{3 - len(seen)} made, {len(seen)} were there already, 0 failed"
    assert {name: Path(f"out/{name}.png").stat().st_mtime_ns for name in seen} == before
    assert files("out") == files("whole")
    for name in ("one", "two", "three"):
        assert np.array_equal(pixels(f"out/{name}.png"), pixels(f"whole/{name}.png"))


def test_ctrl_c_keeps_what_is_finished(run, photos: Path, monkeypatch: pytest.MonkeyPatch):
    from mast.backbone.backbone import Backbone

    real, count = Backbone.predict, after(18, stop)  # in the second photo
    with monkeypatch.context() as patch:
        patch.setattr(Backbone, "predict", lambda *a: (count(), real(*a))[1])
        outcome = run(*BATCH)
    assert outcome.code == 130
    assert "1 of 3 photos are done; the same command goes on with the others" in outcome.err
    assert files() == whole("one")
    assert run(*BATCH).lines[-1] == "2 made, 1 were there already, 0 failed"


# ------------------------------------------------------------ regions that are found


def test_regions_are_found_for_each_photo_once_and_kept(run, photos: Path, monkeypatch: pytest.MonkeyPatch):
    import mast.regions.auto as module

    found: list[int] = []
    real = module.divide
    monkeypatch.setattr(module, "divide", lambda photo, n, *a: (found.append(n), real(photo, n, *a))[1])
    arguments = (*BATCH, "--auto", 2, "--segmenter", "colours")
    assert run(*arguments).code == 0
    assert found == [2, 2, 2]
    for name in ("one", "two", "three"):
        inside = {"object.png", "background.png", "map.png", "overlay.png", "regions.json"}
        assert files(f"out/{name}.regions") == inside
        record = json.loads(Path(f"out/{name}.json").read_text())
        assert record["regions"][0]["mask"]["path"] == f"{name}.regions/object.png"
        assert run("replay", f"out/{name}.png").code == 0
    Path("out/two.png").unlink()
    assert run(*arguments).lines[-1] == "1 made, 2 were there already, 0 failed"
    assert found == [2, 2, 2]


def test_a_segmenter_that_cannot_be_had_fails_once(refused, photos: Path):
    assert "no segmenter of this name" in refused(*BATCH, "--auto", 2, "--segmenter", "gone.py:X")


# ------------------------------------------------------------ what fails


def test_failures_are_told_at_the_end_and_the_others_painted(run, photos: Path, folder: Path):
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    picture(64, 96, 5).save(photos / "upright.png")
    text = (folder / "job.toml").read_text().replace("left.png", "masks/{photo}.png")
    (folder / "job.toml").write_text(text)
    (folder / "masks").mkdir()
    for name in ("broken", "one", "upright", "two"):
        shutil.copy("left.png", f"masks/{name}.png")
    outcome = run(*BATCH)
    assert outcome.code == 2, outcome
    assert files() == whole("one", "two")
    failed = [line for line in outcome.lines if line.startswith("failed: ")]
    assert [line.split(":")[1].strip() for line in failed] == [
        "photos/three.png", "photos/broken.jpg", "photos/upright.png",
    ]  # fmt: skip
    assert "job.toml:7: masks/three.png: no such file" in failed[0]
    assert "the mask is 96x64, the photo 64x96" in failed[2]
    assert outcome.lines[-1] == "2 made, 0 were there already, 3 failed"


def test_what_is_nobodys_fault_has_its_own_exit_code(run, photos: Path, monkeypatch: pytest.MonkeyPatch):
    import mast.pipeline.batch as module

    real, calls = module.stylize, []

    def stylize(*a, **k):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return real(*a, **k)

    monkeypatch.setattr(module, "stylize", stylize)
    outcome = run(*BATCH, "--json")
    assert outcome.code == 1 and files() == whole("one", "two")
    states = {one["photo"]: (one["state"], one["reason"]) for one in json.loads(outcome.out)["pictures"]}
    assert states["photos/three.png"] == ("failed", "RuntimeError: out of memory")


def test_a_full_disk_ends_the_batch(run, photos: Path, monkeypatch: pytest.MonkeyPatch):
    real, calls = Image.Image.save, []

    def save(self, *a, **k):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(self, *a, **k)

    monkeypatch.setattr(Image.Image, "save", save)
    outcome = run(*BATCH)
    assert outcome.code == 1 and "No space left on device" in outcome.err
    assert files() == whole("one")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("photos", "--job", "job.toml"), "photos: this is a folder; give the path of the photo, or with -o"),
        (
            ("photos/*.png", "--job", "job.toml", "-o", "x.png"),
            "photos/*.png: this is one of several",
        ),
        (
            ("photos", "--job", "job.toml", "-o", "photos"),
            "photos: holds one.png itself; give a folder of its",
        ),
        (("photos", "--job", "job.toml", "-o", "job.toml"), "job.toml: this is no folder"),
        (
            ("photos", "--job", "job.toml", "-o", "out", "--no-metadata"),
            "knows finished pictures by their rec",
        ),
        (("photos", "--job", "job.toml", "-o", "out", "--preview-every", 2), "a preview is of one picture"),
        (("photos", "--job", "gone.toml", "-o", "out"), "gone.toml: no such file"),
        (("photos", "-o", "out"), "no region given"),
        (("photos/*.gif", "--job", "job.toml", "-o", "out"), "photos/*.gif: no photo there; give a folder"),
        (("empty", "--job", "job.toml", "-o", "out"), "empty: no photo there"),
        (("photos", "-r", "gone.png", "-o", "out"), "gone.png: no such file"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_before_any_model_is_loaded(refused, photos, arguments, said: str):
    Path("empty").mkdir()
    assert said in refused("stylize", *arguments, "--model", "no-such-model")


# ------------------------------------------------------------ names


def test_photos_that_differ_in_their_kind_only_keep_apart(run, photos: Path):
    picture(96, 64, 20).save(photos / "one.jpg")
    assert run(*BATCH).code == 0
    assert files() == whole("one-png", "one-jpg", "two", "three")
    assert json.loads(Path("out/one-jpg.json").read_text())["content"]["path"] == "../photos/one.jpg"


def test_names_that_cannot_be_kept_apart_are_refused(refused, photos: Path):
    (photos / "deep").mkdir()
    shutil.copy(photos / "one.png", photos / "deep" / "one.png")
    said = refused("stylize", "photos/**/*.png", "--job", "job.toml", "-o", "out")
    assert "its picture would be called one-png.png, as that of photos/deep/one.png" in said


def test_the_job_files_kind_of_picture(run, photos: Path, folder: Path):
    (folder / "job.toml").write_text('output = "one.jpg"\n' + (folder / "job.toml").read_text())
    assert run("stylize", "photos/o*.png", "--job", "job.toml", "-o", "new/out").code == 0
    assert files("new/out") == {"one.jpg", "one.json"}
