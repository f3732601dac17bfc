"""A run on a Ray cluster of this machine: two actors, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_bench import make_bench, pictures_of, plan_for, run_all

ray = pytest.importorskip("ray", reason="ray is not installed (pip install 'mast[cluster]')")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A small Ray of our own; its workers see this test's cache and its modules."""
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    ray.init(
        include_dashboard=False,
        num_cpus=2,
        object_store_memory=100 << 20,
        log_to_driver=False,
        logging_level="error",
        runtime_env={"env_vars": {"MAST_CACHE": str(own_cache)}},
    )
    yield
    ray.shutdown()


def test_an_actor_killed_in_the_middle_is_replaced(cluster: None, tmp_path: Path, tiny_sd_folder: Path):
    from mast.bench.run.on_ray import RayCrew

    manifest = make_bench(tmp_path / "bench", 3, 3)
    plan = plan_for(manifest, tmp_path / "out", tiny_sd_folder)
    crew = RayCrew(plan, 2)
    assert (crew.size, crew.plan.threads) == (2, 1)
    pids: dict[int, int] = {}
    killed: list[int] = []
    held: list = []  # what the first actor did before the second had loaded its model
    wait = crew.wait

    def watched():
        if len(pids) == 2 and held:
            if not killed:
                killed.append(pids[1])  # it has just been given a sample
                os.kill(killed[0], signal.SIGKILL)
            return held.pop(0)
        index, reply = wait()
        pids[index] = getattr(reply, "pid", pids.get(index, 0))
        if len(pids) < 2 and isinstance(reply, list):
            held.append((index, reply))
            return watched()
        return index, reply

    crew.wait = watched  # type: ignore[method-assign]
    summary = run_all(plan, crew)
    assert killed
    assert summary.count("made") == 9 and not summary.failed and not summary.held
    whole = plan_for(manifest, tmp_path / "whole", tiny_sd_folder)
    run_all(whole)
    assert pictures_of(plan.out) == pictures_of(whole.out)


def test_a_sample_that_kills_two_actors_is_recorded_as_failed(
    cluster: None, tmp_path: Path, tiny_sd_folder: Path
):
    from mast.bench.run.on_ray import RayCrew

    plan = plan_for(make_bench(tmp_path / "bench", 2, 2), tmp_path / "out", tiny_sd_folder)
    crew = RayCrew(plan, 1)
    pids: list[int] = []
    wait, give = crew.wait, crew.give

    def waited():
        index, reply = wait()
        pids.append(getattr(reply, "pid", 0))
        return index, reply

    def given(index, unit):
        if unit[0] == "n2-t1-photo0":
            os.kill(next(pid for pid in reversed(pids) if pid), signal.SIGKILL)
        give(index, unit)

    crew.wait, crew.give = waited, given  # type: ignore[method-assign]
    summary = run_all(plan, crew)
    assert summary.count("made") == 3
    assert [(o.sample, o.status) for o in summary.failed] == [("n2-t1-photo0", "failed")]
    assert "its worker died 2 times" in (plan.out / "mast/failed.jsonl").read_text()


def test_a_model_that_is_not_there_is_said_once(cluster: None, tmp_path: Path):
    from mast.bench.run.on_ray import RayCrew
    from mast.job import InputError

    plan = plan_for(make_bench(tmp_path / "bench", 1, 1), tmp_path / "out", tmp_path / "nothing")
    with pytest.raises(InputError, match="no such model"):
        run_all(plan, RayCrew(plan, 1))
