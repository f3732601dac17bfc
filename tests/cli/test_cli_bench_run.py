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


def test_the_papers_protocol_is_one_word(bench, folder: Path, monkeypatch):
    pytest.importorskip("cv2")
    from mast.bench import variants
    from mast.methods import METHODS, option_names

    assert bench("-m", "mast", "-m", "styleid", "--protocol", "paper", "--limit", 1, "-q").code == 0
    facts = {path.parent.name: json.loads(path.read_text()) for path in Path("out").glob("*/run.json")}
    assert set(facts) == {"mast", *(f"styleid-{how}" for how in ("hard", "alpha", "poisson", "laplacian"))}
    for said in facts.values():
        settings = said["settings"]
        assert said["protocol"] == "paper" and settings["fit"] == "square"
        assert settings["clean_end"] and settings["inversion"] == "plain"
        assert settings["keep_unassigned"] == "reconstruct" and settings["coarse"] == "off"
        assert (settings["steps"], settings["size"]) == (3, 64), "what is said beside it wins"
    released = [name for name, method in METHODS.items() if "released" in option_names(method)]
    for name in released:
        assert variants.as_released(variants.parse_variant(name)).options["released"] is True
        assert variants.as_released(variants.parse_variant(f"{name}:released=off")).options == {
            "released": False
        }
        assert variants.as_released(variants.parse_variant(name)).name == name
    assert facts["styleid-hard"]["method"].get("released", "styleid" not in released) is True
    assert variants.as_released(variants.parse_variant("mast")).options == {}


def test_the_papers_protocol_is_512_px_squares_in_50_moves(model: Path, folder: Path):
    """All of it, without running it."""
    from mast.bench.run.worker import Worker
    from mast.cli.bench_run import BenchOptions
    from mast.cli.options import RunOptions

    make_bench(folder / "data", 1, 1)
    from mast.bench.variants import parse_variant

    options = BenchOptions(folder / "data", folder / "out", protocol="paper")
    plan, _, _ = options.plan([parse_variant("mast")], RunOptions(model=str(model), device="cpu"))
    worker = Worker(plan)
    assert (worker.shared.size, worker.shared.fit) == (512, "square")
    assert len(worker.backbone.schedule(worker.shared.steps, worker.shared.clean_end).moves) == 50


def test_another_protocol_is_refused(bench):
    outcome = bench("-m", "mast", "--protocol", "theirs")
    assert outcome.code == 2 and "--protocol theirs: there is one, paper" in outcome.err
    assert not Path("out").exists()


def test_a_sweep_keeps_to_the_protocol_with_one_compositor(bench, folder: Path):
    inception, lpips = random_metrics(folder / "weights")
    given = ("--over", "gamma=0.3,0.75", "-m", "styleid", "--protocol", "paper", "--limit", 2, "-q")
    networks = ("--inception-weights", inception, "--lpips-weights", lpips, "--repeats", 2)
    outcome = bench(*given, *networks, command="sweep")
    assert outcome.code == 0, outcome.err
    made = sorted(path.name for path in Path("out").iterdir() if path.is_dir() and path.name[0] != ".")
    assert made == ["styleid-gamma0.3-alpha", "styleid-gamma0.75-alpha"]


def test_a_report_of_the_protocol_takes_artfids_inception_where_it_is_there(
    bench, run, folder: Path, monkeypatch
):
    """Its file is where mast weights fetch puts it; else FID's own measures, and a note says so."""
    from mast.weights import registry

    inception, lpips = random_metrics(folder / "weights")
    assert bench("-m", "mast", "--protocol", "paper", "-q").code == 0
    given = ("--lpips-weights", lpips, "--repeats", 2, "--device", "cpu", "--json")
    own = ("--inception", "fid", "--inception-weights", inception)
    notes = json.loads(run("bench", "report", "out", *given, *own).out)["notes"]
    assert any("not on the paper's scale" in note for note in notes)
    kept = registry.weights_folder() / "art_inception.pth"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(inception.read_bytes())
    found = json.loads(run("bench", "report", "out", *given).out)
    assert found["scores"][0]["networks"]["inception"].startswith("artfid ")
    assert not any("not on the paper's scale" in note for note in found["notes"])
