"""Ctrl-C at any moment: exit 130, nothing half-written, and what was finished stays in the cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from mast.job import Cancelled, Progress

CALL = ("photo.png", "-r", "left.png=a.png", "-r", "=b.png", "-o", "out.png")


def stop() -> None:
    raise KeyboardInterrupt


def cancel() -> None:
    raise Cancelled


def kill() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


@contextmanager
def interrupted(stage: str, done: int, how: Callable[[], None] = stop) -> Iterator[None]:
    """Inside, every run is ended at the given pass of the given stage."""

    @contextmanager
    def progress(quiet: bool) -> Iterator[Callable[[Progress], None]]:
        def on_step(step: Progress) -> None:
            if (step.stage, step.done) == (stage, done):
                how()

        yield on_step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mast.cli.stylize.progress", progress)
        yield


def kept(cache: Path) -> int:
    """Finished inversions; what is being written has a name that begins with a dot."""
    return len(list((cache / "trajectories").glob("[!.]*.safetensors")))


@pytest.mark.parametrize("how", [stop, cancel, kill, hang_up])
def test_during_inversion(stylize, folder: Path, own_cache: Path, how: Callable[[], None]):
    before = sorted(os.listdir(folder))
    with interrupted("invert", 5, how):  # four passes for the photo, and the first one of a style
        outcome = stylize(*CALL)
    assert outcome.code == 130 and outcome.out == ""
    assert outcome.lines == ["stopped; nothing half-written is left, finished inversions are kept"]
    assert sorted(os.listdir(folder)) == before
    assert kept(own_cache) == 1 and not list(own_cache.rglob("*.part"))


def test_what_was_finished_is_not_done_again(stylize, own_cache: Path):
    with interrupted("invert", 10):
        assert stylize(*CALL).code == 130
    assert kept(own_cache) == 2
    outcome = stylize(*CALL)
    assert outcome.code == 0
    assert "note: 2 of 3 pictures were inverted in an earlier run" in outcome.lines


def test_during_denoising_with_a_preview_on_disk(stylize, folder: Path, own_cache: Path, monkeypatch):
    import mast.images as module

    before = sorted(os.listdir(folder))
    save = module.save_png

    def save_and_stop(image: Image.Image, path: Path) -> None:
        save(image, path)
        assert path.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "save_png", save_and_stop)
    assert stylize(*CALL, "--preview-every", 1).code == 130
    assert sorted(os.listdir(folder)) == before
    assert kept(own_cache) == 3


def test_while_the_picture_is_written(stylize, folder: Path, monkeypatch):
    before = sorted(os.listdir(folder))

    monkeypatch.setattr(Image.Image, "save", lambda *_, **__: stop())
    assert stylize(*CALL).code == 130
    assert sorted(os.listdir(folder)) == before


def test_an_output_that_was_there_survives(stylize):
    Path("out.png").write_bytes(b"old")
    with interrupted("denoise", 1):
        assert stylize(*CALL, "--overwrite").code == 130
    assert Path("out.png").read_bytes() == b"old" and not Path("out.json").exists()


def test_ctrl_c_to_a_real_process(folder: Path, own_cache: Path, model: Path):
    before = sorted(os.listdir(folder))
    script = (
        "import signal, torch; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "torch.set_num_threads(1); import mast.cli; mast.cli.main()"
    )
    settings = ("--model", str(model), "--steps", "50", "--size", "64")
    process = subprocess.Popen(
        [sys.executable, "-c", script, "stylize", *CALL, *settings], stderr=subprocess.PIPE, text=True
    )
    try:
        waiting = time.monotonic() + 90
        while kept(own_cache) == 0 and process.poll() is None and time.monotonic() < waiting:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert "stopped; nothing half-written is left" in err and "Traceback" not in err
    assert sorted(os.listdir(folder)) == before
    assert 1 <= kept(own_cache) < 3 and not list(own_cache.rglob("*.part"))
