"""Killed at any moment and started again: every picture once, and the bits of a run that was left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from mast.bench.run.worker import BenchPlan
from tests.small_bench import make_bench, pictures_of, plan_for, run_all

MAIN = "import torch; torch.set_num_threads(1); import mast.cli; mast.cli.main()"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(plan: BenchPlan, arm: Callable[[], None]) -> None:
    """The plan in a process of its own that kills itself where `arm` says."""
    child = os.fork()
    if child == 0:
        try:
            arm()
            run_all(plan)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was to be killed and was not"


def after(calls: int, act: Callable[[], None]) -> Callable[[], bool]:
    """Does it at the given call, counted from 1."""
    seen: list[int] = []

    def count() -> bool:
        seen.append(1)
        if len(seen) == calls:
            act()
        return False

    return count


def in_a_pass() -> None:
    from mast.backbone.backbone import Backbone

    real, count = Backbone.predict, after(20, die)
    Backbone.predict = lambda *a: count() or real(*a)  # type: ignore[method-assign]


def while_the_picture_is_written() -> None:
    def half(self, path, *_, **__) -> None:
        Path(path).write_bytes(b"half a pic")
        die()

    real, count = Image.Image.save, after(2, lambda: setattr(Image.Image, "save", half))
    Image.Image.save = lambda *a, **k: count() or real(*a, **k)  # type: ignore[method-assign]


def between_record_and_picture() -> None:
    from mast.bench.run import records

    class Os:
        @staticmethod
        def replace(source, target) -> None:
            if str(target).endswith(".png"):
                die()
            os.replace(source, target)

    records.os = Os  # type: ignore[assignment]


def while_a_failure_is_recorded() -> None:
    from mast.bench.run import records

    def half(folder: Path, sample: str, reason: str) -> None:
        with (folder / records.FAILED).open("a") as file:
            file.write(f'{{"id": "{sample}", "rea')
        die()

    records.record_failure = half


@pytest.mark.parametrize(
    "arm",
    [in_a_pass, while_the_picture_is_written, between_record_and_picture, while_a_failure_is_recorded],
)
def test_killed_and_resumed(arm: Callable[[], None], tmp_path: Path, tiny_sd_folder: Path, monkeypatch):
    spoiled = ("photo1.png",) if arm is while_a_failure_is_recorded else ()
    manifest = make_bench(tmp_path / "bench", spoiled=spoiled)
    plan = plan_for(manifest, tmp_path / "out", tiny_sd_folder)
    killed(plan, arm)
    done = {name: data for name, data in pictures_of(plan.out).items() if name.endswith(".png")}
    assert len(done) < 4 - 2 * bool(spoiled)
    summary = run_all(plan)
    assert summary.count("already") == len(done)
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "another-cache"))
    whole = plan_for(manifest, tmp_path / "whole", tiny_sd_folder)
    assert {o.sample for o in run_all(whole).failed} == {o.sample for o in summary.failed}
    assert pictures_of(plan.out) == pictures_of(whole.out)
    assert not list((plan.out / ".work").rglob("*.png"))
    assert not list(plan.out.glob("*/.claims/*"))


def start(plan: BenchPlan, *more: object) -> subprocess.Popen[str]:
    arguments = ["bench", "run", plan.manifest, "--out", plan.out, "--model", plan.model, "--method", "mast"]
    settings = ["--steps", plan.changes["steps"], "--size", 64, "--threads", 1, "--device", "cpu"]
    command = [sys.executable, "-c", MAIN, *map(str, [*arguments, *settings, *more])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_pictures(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    waiting = time.monotonic() + 120
    while len(list(out.glob("mast/*.png"))) < count and process.poll() is None and time.monotonic() < waiting:
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_kill_nine_to_a_real_run(workers: int, tmp_path: Path, tiny_sd_folder: Path, monkeypatch):
    plan = plan_for(
        make_bench(tmp_path / "bench", 3, 2), tmp_path / "out", tiny_sd_folder, settings={"steps": 6}
    )
    process = start(plan, "--workers", workers)
    try:
        wait_for_pictures(plan.out, 2, process)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    waiting = time.monotonic() + 30  # workers of a killed run see it at their next pass, and end
    while list(plan.out.glob("mast/.claims/*")) and workers > 1 and time.monotonic() < waiting:
        time.sleep(0.05)
    done = len(list(plan.out.glob("mast/*.png")))
    assert 2 <= done < 6
    summary = run_all(plan)
    assert (summary.count("already"), summary.count("made")) == (done, 6 - done)
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "another-cache"))
    whole = plan_for(plan.manifest, tmp_path / "whole", tiny_sd_folder, settings={"steps": 6})
    run_all(whole)
    assert pictures_of(plan.out) == pictures_of(whole.out)


@pytest.mark.slow
def test_two_real_runners_on_one_folder(tmp_path: Path, tiny_sd_folder: Path):
    import json

    plan = plan_for(
        make_bench(tmp_path / "bench", 3, 2), tmp_path / "out", tiny_sd_folder, settings={"steps": 6}
    )
    both = [start(plan, "--json") for _ in range(2)]
    said = [json.loads(process.communicate(timeout=300)[0]) for process in both]
    assert sum(one["made"] for one in said) == 6
    assert all(one["made"] + one["already"] + one["held"] == 6 for one in said)
    assert len(list(plan.out.glob("mast/*.png"))) == 6


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_and_says_how_to_go_on(how: signal.Signals, tmp_path: Path, tiny_sd_folder: Path):
    plan = plan_for(
        make_bench(tmp_path / "bench", 3, 2), tmp_path / "out", tiny_sd_folder, settings={"steps": 6}
    )
    process = start(plan, "--workers", 2)
    try:
        wait_for_pictures(plan.out, 1, process)
        process.send_signal(how)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said
    assert "run the same command again to go on" in said and "Traceback" not in said
    assert 1 <= len(list(plan.out.glob("mast/*.png"))) < 6
    assert not list(plan.out.glob("mast/.claims/*")) and not list((plan.out / ".work").rglob("*.png"))


@pytest.mark.slow
def test_a_disk_that_takes_no_more_bytes(tmp_path: Path, tiny_sd_folder: Path):
    """A real failure of a real write: the limit lets the record through and cuts the picture short."""
    plan = plan_for(make_bench(tmp_path / "bench", 1, 2), tmp_path / "out", tiny_sd_folder)
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)); {MAIN}"
    arguments = ["bench", "run", plan.manifest, "--out", plan.out, "--model", plan.model, "--method", "mast"]
    settings = ["--steps", 3, "--size", 64, "--threads", 1, "--device", "cpu"]
    command = [sys.executable, "-c", limited, *map(str, [*arguments, *settings])]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert "the disk is full" in ran.stderr and "run the same command again" in ran.stderr
    assert list(pictures_of(plan.out)) == ["mast/run.json"]
    assert not [path for path in plan.out.rglob("*") if path.suffix == ".png"]
    assert run_all(plan).count("made") == 2
