"""mast bench run and mast bench sweep: exit codes, what is said, and what is refused before anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.small_bench import make_bench, random_metrics

pytestmark = pytest.mark.usefixtures("warm_cache")


@pytest.fixture
def bench(run, model: Path, folder: Path) -> Callable:
    """`mast bench run` of one photo with two pairs of styles."""
    make_bench(folder / "data", 1, 2)

    def call(*arguments: object, manifest: str = "data", command: str = "run"):
        quick = ("--model", model, "--steps", 3, "--size", 64, "--threads", 1, "--device", "cpu")
        return run("bench", command, manifest, "--out", "out", *quick, *arguments)

    return call


def test_a_run_its_summary_and_its_json(bench):
    outcome = bench("--method", "mast", "--method", "soft=mast:lam=0.1")
    assert outcome.code == 0, outcome.err
    assert outcome.lines[-1].endswith("out: 4 pictures made") and outcome.out == ""
    said = json.loads(bench("--method", "mast", "-m", "soft=mast:lam=0.1", "--json").out)
    assert (said["made"], said["already"], said["failed"], said["held"]) == (0, 4, 0, 0)
    assert said["variants"]["soft"] == {"made": 0, "already": 2, "failed": 0, "held": 0}
    assert said["threads"] == 1


def test_the_ablation_makes_its_four_rows(bench):
    assert bench("--ablation", "--limit", 1, "-q").code == 0
    made = sorted(str(path.relative_to("out").parent) for path in Path("out").glob("*/*.png"))
    assert made == ["mast", "mast-no-ddi", "mast-no-sts-no-ddi", "shared"]


def test_a_single_style_method_is_run_once_and_composited_every_way(bench, monkeypatch):
    pytest.importorskip("cv2")
    from mast.bench.run import worker as runner

    calls: list = []
    real = runner.stylize
    monkeypatch.setattr(runner, "stylize", lambda *a, **k: calls.append(1) or real(*a, **k))
    outcome = bench("--method", "styleid", "--composite", "all", "--limit", 1)
    assert outcome.code == 0, outcome.err
    made = {path.parent.name: path for path in Path("out").glob("*/*.png")}
    assert set(made) == {f"styleid-{how}" for how in ("hard", "alpha", "poisson", "laplacian")}
    assert len(calls) == 1
    records = [json.loads(path.with_suffix(".json").read_text()) for path in made.values()]
    assert {record["settings"]["composite"] for record in records} == {
        "hard",
        "alpha",
        "poisson",
        "laplacian",
    }
    # what a kill lost is made again with the same bits, though the first compositor's picture is there
    before = made["styleid-alpha"].read_bytes()
    made["styleid-alpha"].unlink()
    assert bench("--method", "styleid", "--composite", "all", "--limit", 1).code == 0
    assert made["styleid-alpha"].read_bytes() == before and len(calls) == 2


def test_shards_are_parts_of_the_whole(bench):
    assert bench("-m", "mast", "--shard", "2/2", "-q").code == 0
    assert [path.stem for path in Path("out/mast").glob("*.png")] == ["n2-t1-photo0"]
    assert "1 pictures made, 1 were there already" in bench("-m", "mast").err


def test_failures_end_in_exit_one_with_their_reasons(bench, folder: Path):
    make_bench(folder / "spoiled", 2, 1, spoiled=("photo1.png",))
    outcome = bench("-m", "mast", manifest="spoiled")
    assert outcome.code == 1
    assert "1 pictures made" in outcome.err and "1 pictures failed (--retry-failed" in outcome.err
    assert "mast/n2-t0-photo1: " in outcome.err and "not a picture that can be read" in outcome.err
    assert bench("-m", "mast", manifest="spoiled").code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "no method given"),
        (("-m", "mats"), "did you mean 'mast'"),
        (("-m", "mast", "--preset", "best"), "preset 'best' is not known"),
        (("-m", "mast", "--on", "moon"), "choose local or ray"),
        (("-m", "mast", "--shard", "0/3"), "from 1/k to k/k"),
        (("-m", "mast", "--composite", "glue"), "no compositor is called 'glue'"),
        (("-m", "mast", "--fit", "crop"), "fit is 'crop'"),
    ],
)
def test_bad_arguments_are_refused_before_anything(refused, folder: Path, arguments: tuple, says: str):
    make_bench(folder / "data", 1, 1)
    assert says in refused("bench", "run", "data", "--out", "out", *arguments)
    assert not Path("out").exists()


def test_a_changed_or_missing_file_is_named_before_anything(bench, folder: Path):
    (folder / "data/style0.png").write_bytes(b"other")
    (folder / "data/style1.png").unlink()
    outcome = bench("-m", "mast")
    assert outcome.code == 2 and not Path("out").exists()
    assert "style0.png: changed" in outcome.err and "style1.png: missing" in outcome.err


def test_no_manifest_and_a_damaged_one(refused, folder: Path):
    assert "no such manifest" in refused("bench", "run", "nowhere", "--out", "out", "-m", "mast")
    (folder / "manifest.jsonl").write_text("{}\n")
    assert "line 1" in refused("bench", "run", "manifest.jsonl", "--out", "out", "-m", "mast")


def test_another_run_in_the_folder_is_refused(bench):
    assert bench("-m", "mast", "-q").code == 0
    outcome = bench("-m", "mast=mast:r=0.5")
    assert outcome.code == 2 and "method r: 0.3 there, 0.5 now" in outcome.err


@pytest.mark.slow
def test_a_sweep_runs_measures_and_draws(bench, tmp_path: Path):
    inception, lpips = random_metrics(tmp_path / "weights")
    weights = ("--inception-weights", inception, "--lpips-weights", lpips, "--repeats", 2)
    outcome = bench("--over", "tau=1,2,sts", "--over", "ablation", *weights, command="sweep")
    assert outcome.code == 0, outcome.err
    assert {path.parent.name for path in Path("out").glob("*/run.json")} == {
        "mast-tau1", "mast-tau2", "mast", "shared", "mast-no-sts-no-ddi", "mast-no-ddi",
    }  # fmt: skip
    rows = json.loads(Path("out/sweep-tau.json").read_text())["rows"]
    assert [row["label"] for row in rows] == ["1", "2", "STS"] and all(row["fid"] > 0 for row in rows)
    assert "Sweep over tau" in outcome.out and "Ablation" in outcome.out
    pytest.importorskip("matplotlib")
    assert Path("out/sweep-tau-n2.png").stat().st_size > 5000
