"""Variants, the order of samples, and a run: every picture once, failures recorded, another run refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mast.bench.data.manifest import BenchRegion, BenchSample, File, read
from mast.bench.run import records
from mast.bench.run.claims import claimed
from mast.bench.run.order import parse_shard, rows, select, split
from mast.bench.run.pool import Pool
from mast.bench.run.worker import DiskFull, Worker
from mast.bench.variants import ablation, distinct, groups, parse_variant
from mast.job import InputError
from tests.small_bench import make_bench, pictures_of, plan_for, run_all

pytestmark = pytest.mark.usefixtures("warm_cache")


# ------------------------------------------------------------------------------------------------ variants


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("mast", "mast", {}),
        ("mast:lam=0.1", "mast-lam0.1", {"lam": 0.1}),
        ("mast:sts=off,ddi=off", "mast-no-sts-no-ddi", {"sts": False, "ddi": False}),
        ("soft=mast:tau=1.25", "soft", {"tau": 1.25}),
        ("mast:tau=.1/.6/1", "mast-tau0.1_0.6_1", {"tau": (0.1, 0.6, 1.0)}),
        ("shared", "shared", {}),
    ],
)
def test_a_variant_is_read_and_named(text: str, name: str, options: dict):
    variant = parse_variant(text)
    assert (variant.name, variant.options) == (name, options)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("masst", "did you mean 'mast'"),
        ("mast:lamb=1", "no option 'lamb'"),
        ("mast:lam", "is no option"),
        ("mast:lam=2", "lam is 2"),
        ("mast:lam=x", "write a number"),
        ("mast:ddi=maybe", "on or off"),
        ("mast:lam=.1,lam=.2", "given twice"),
        ("../up=mast", "folder"),
        ("", "write METHOD"),
    ],
)
def test_a_bad_variant_is_refused(text: str, says: str):
    with pytest.raises(InputError, match=says):
        parse_variant(text)


def test_one_name_is_one_variant():
    assert len(distinct([parse_variant("mast"), parse_variant("mast")])) == 1
    with pytest.raises(InputError, match="two variants are called 'mast'"):
        distinct([parse_variant("mast"), parse_variant("mast=mast:lam=.1")])


def test_the_ablation_has_the_papers_rows():
    from mast.methods import make

    switches = [
        tuple(make(v.method, **v.options).options()[name] for name in ("lama", "sts", "ddi"))
        for v in ablation()
    ]
    assert switches == [(False,) * 3, (True, False, False), (True, True, False), (True, True, True)]
    assert groups(ablation()) == [(v,) for v in ablation()]


# ------------------------------------------------------------------------------------------------ order


def crossed(contents: int, tuples: int) -> list[BenchSample]:
    """Every content with every pair of styles, photo by photo."""
    file = lambda name: File(Path(name), name)
    return [
        BenchSample(
            f"c{c}-t{t}",
            2,
            t,
            file(f"c{c}"),
            tuple(BenchRegion("r", file("m"), file(f"s{t}{i}")) for i in "ab"),
        )
        for c in range(contents)
        for t in range(tuples)
    ]


def inversions(ordered: list[BenchSample], room: int) -> int:
    """How many pictures are inverted when the `room` ones used last are remembered."""
    kept: list[str] = []
    made = 0
    for sample in ordered:
        for name in (sample.content.sha256, *(r.style.sha256 for r in sample.regions)):
            made += name not in kept
            kept = [*(k for k in kept if k != name), name][-room:]
    return made


def test_the_order_inverts_every_picture_once_where_photo_by_photo_would_not():
    samples = crossed(20, 180)
    ordered = select(samples)
    assert inversions(ordered, room=24) == 20 + 360
    assert inversions(samples, room=24) == 20 + 20 * 360


def test_rows_run_to_and_fro_so_that_a_cache_too_small_still_serves():
    samples = crossed(6, 10)
    forth = sorted(samples, key=lambda sample: (sample.tuple_index, sample.id))
    assert inversions(select(samples), room=6) < inversions(forth, room=6)


def test_more_photos_than_styles_are_taken_photo_by_photo():
    assert [len({s.content.sha256 for s in row}) for row in rows(crossed(9, 2))] == [1] * 9


@given(contents=st.integers(1, 6), tuples=st.integers(1, 6), parts=st.integers(1, 9), by=st.booleans())
def test_shards_and_workers_share_the_samples_out(contents: int, tuples: int, parts: int, by: bool):
    samples = crossed(contents, tuples)
    found = (
        [select(samples, (i, parts)) for i in range(1, parts + 1)] if by else split(select(samples), parts)
    )
    assert sorted(s.id for part in found for s in part) == sorted(s.id for s in samples)
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_bad_shard_is_refused(text: str):
    with pytest.raises(InputError, match="from 1/k to k/k"):
        parse_shard(text)


# ------------------------------------------------------------------------------------------------ runs


def test_every_picture_once_and_then_none(tmp_path: Path, tiny_sd_folder: Path):
    plan = plan_for(make_bench(tmp_path / "bench"), tmp_path / "out", tiny_sd_folder, "mast", "shared")
    heard: list = []
    summary = run_all(plan, heard=heard)
    assert summary.count("made") == 8 == len(heard) and not summary.failed
    # both variants of a sample together, both photos of a pair of styles together
    assert [o.variant for o in heard] == ["mast", "shared"] * 4
    assert [o.sample.split("-")[1] for o in heard[::2]] == ["t0", "t0", "t1", "t1"]
    made = pictures_of(plan.out)
    assert len(made) == 2 * (4 * 2 + 1)
    again = run_all(plan)
    assert (again.count("made"), again.count("already")) == (0, 8)
    assert pictures_of(plan.out) == made
    facts = json.loads(made["mast/run.json"])
    record = json.loads(made["mast/n2-t0-photo0.json"])
    assert facts["manifest"]["sha256"] == read(plan.manifest).sha256
    assert facts["method"] == record["method"] and facts["settings"] == record["settings"]
    assert facts["model"]["fingerprint"] == record["model"]["fingerprint"]
    assert facts["variant"] == "mast" and facts["threads"] == 1


def test_a_sample_that_cannot_be_made_is_recorded_and_the_rest_goes_on(tmp_path: Path, tiny_sd_folder: Path):
    manifest = make_bench(tmp_path / "bench", spoiled=("photo1.png",))
    plan = plan_for(manifest, tmp_path / "out", tiny_sd_folder)
    summary = run_all(plan)
    assert summary.count("made") == 2 and len(summary.failed) == 2
    folder = plan.out / "mast"
    lines = [json.loads(line) for line in (folder / "failed.jsonl").read_text().splitlines()]
    assert {line["id"] for line in lines} == {"n2-t0-photo1", "n2-t1-photo1"}
    assert all(line["attempt"] == 1 and "photo1.png: not a picture" in line["reason"] for line in lines)
    # known failures are not tried again unless asked for, and count as failed all the same
    assert [o.status for o in run_all(plan).failed] == ["failed before"] * 2
    retry = plan_for(manifest, plan.out, tiny_sd_folder, retry_failed=True)
    assert [o.status for o in run_all(retry).failed] == ["failed"] * 2
    assert {entry["attempt"] for entry in records.failures(folder).values()} == {2}


def test_a_sample_that_is_made_at_last_is_not_failed_any_more(tmp_path: Path, tiny_sd_folder: Path):
    plan = plan_for(make_bench(tmp_path / "bench", 1, 1), tmp_path / "out", tiny_sd_folder, retry_failed=True)
    folder = plan.out / "mast"
    folder.mkdir(parents=True)
    for sample in ("n2-t0-photo0", "another"):
        records.record_failure(folder, sample, "out of memory")
    with (folder / "failed.jsonl").open("a") as file:
        file.write('{"id": "cut sho')  # by a kill
    records.record_failure(folder, "third", "no reason")
    assert run_all(plan).count("made") == 1
    assert set(records.failures(folder)) == {"another", "third"}
    assert '"n2-t0-photo0"' not in (folder / "failed.jsonl").read_text()


def test_memory_that_runs_out_fails_the_sample_only(tmp_path: Path, tiny_sd_folder: Path, monkeypatch):
    from mast.bench.run import worker as runner

    real, calls = runner.stylize, []

    def short(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 GB\ntrace"
            )
        return real(*arguments, **options)

    monkeypatch.setattr(runner, "stylize", short)
    summary = run_all(plan_for(make_bench(tmp_path / "bench", 1, 2), tmp_path / "out", tiny_sd_folder))
    assert summary.count("made") == 1
    assert summary.failed[0].reason.startswith("out of memory; try a smaller --size")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"settings": {"steps": 4}}, "settings steps: 3 there, 4 now"),
        ({"method": "mast=mast:lam=0.3"}, "method lam: 0.2 there, 0.3 now"),
        ({"manifest": 3}, "manifest sha256"),
        ({"model": 1}, "model fingerprint"),
    ],
)
def test_another_run_in_the_same_folder_is_refused(
    tmp_path: Path, tiny_sd_folder: Path, change: dict, says: str, request
):
    manifest = make_bench(tmp_path / "bench", 1, 1)
    run_all(plan_for(manifest, tmp_path / "out", tiny_sd_folder))
    before = pictures_of(tmp_path / "out")
    if "manifest" in change:
        manifest = make_bench(tmp_path / "other", 1, 2)
    model = tiny_sd_folder
    if "model" in change:
        import shutil

        from tests.tiny import make_unet

        model = Path(shutil.copytree(tiny_sd_folder, tmp_path / "model"))
        make_unet(seed=7).save_pretrained(model / "unet")
    method = change.get("method", "mast")
    plan = plan_for(manifest, tmp_path / "out", model, method, settings=change.get("settings", {}))
    with pytest.raises(InputError, match=says):
        run_all(plan)
    assert pictures_of(tmp_path / "out") == before


def test_what_changes_no_pixel_is_not_refused_and_threads_are_noted(tmp_path: Path, tiny_sd_folder: Path):
    manifest = make_bench(tmp_path / "bench", 1, 1)
    run_all(plan_for(manifest, tmp_path / "out", tiny_sd_folder))
    facts = json.loads((tmp_path / "out/mast/run.json").read_text())
    (tmp_path / "out/mast/run.json").write_text(json.dumps({**facts, "threads": 8}))
    summary = run_all(plan_for(manifest, tmp_path / "out", tiny_sd_folder, settings={"features": "replay"}))
    assert summary.notes == [
        "mast: begun with threads 8, goes on with 1; the last bits of its pictures may differ"
    ]


def test_a_folder_of_other_pictures_is_refused(tmp_path: Path, tiny_sd_folder: Path):
    (tmp_path / "out/mast").mkdir(parents=True)
    (tmp_path / "out/mast/holiday.png").touch()
    with pytest.raises(InputError, match=r"holds pictures but no run\.json"):
        run_all(plan_for(make_bench(tmp_path / "bench", 1, 1), tmp_path / "out", tiny_sd_folder))


def test_what_another_runner_holds_is_left_to_it_and_reported(tmp_path: Path, tiny_sd_folder: Path):
    plan = plan_for(make_bench(tmp_path / "bench"), tmp_path / "out", tiny_sd_folder)
    (plan.out / "mast").mkdir(parents=True)
    with claimed(plan.out / "mast", "n2-t1-photo0"):
        summary = run_all(plan)
    assert [o.sample for o in summary.held] == ["n2-t1-photo0"] and summary.count("made") == 3
    assert run_all(plan).count("made") == 1


def test_two_runners_take_turns_on_one_folder(tmp_path: Path, tiny_sd_folder: Path):
    """Interleaved picture by picture: while one is at work on a sample the other asks for the same one."""
    plan = plan_for(make_bench(tmp_path / "bench"), tmp_path / "out", tiny_sd_folder)
    other = Worker(plan)
    seen: list = []

    def meanwhile(_) -> None:
        if len(seen) < 3:
            seen.append([o.status for name in ids for o in other.do((name, 0))])

    ids = [sample.id for sample in read(plan.manifest).samples]
    one = Worker(plan, on_step=meanwhile)
    records.agree(plan.out, one.facts())
    statuses = [o.status for name in ids for o in one.do((name, 0))]
    assert seen[0] == ["held", "made", "made", "made"]
    assert statuses == ["made", "already", "already", "already"]


# ------------------------------------------------------------------------------------------------ full disk


def test_a_full_disk_stops_the_run_at_once_and_nothing_half_written_is_left(
    tmp_path: Path, tiny_sd_folder: Path, monkeypatch
):
    from PIL import Image

    plan = plan_for(make_bench(tmp_path / "bench"), tmp_path / "out", tiny_sd_folder)
    real, saved = Image.Image.save, []

    def save(self, path, *arguments, **options):
        saved.append(path)
        if len(saved) == 2:
            Path(path).write_bytes(b"half a pic")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(self, path, *arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(DiskFull, match="No space left"):
        patch.setattr(Image.Image, "save", save)
        run_all(plan)
    assert sorted(pictures_of(plan.out)) == [
        "mast/n2-t0-photo0.json",
        "mast/n2-t0-photo0.png",
        "mast/run.json",
    ]
    assert not [path for path in plan.out.rglob("*.png") if path.name.startswith(".")]
    assert not list((plan.out / ".work").rglob("*.png")) and not (plan.out / "mast/failed.jsonl").exists()
    assert run_all(plan).count("made") == 3


# ------------------------------------------------------------------------------------------------ workers


@pytest.mark.slow
def test_processes_make_the_same_bits_and_a_dead_one_is_replaced(tmp_path: Path, tiny_sd_folder: Path):
    import signal

    manifest = make_bench(tmp_path / "bench", 3, 3)
    plan = plan_for(manifest, tmp_path / "out", tiny_sd_folder)
    crew = Pool(plan, 2)
    killed: list[int] = []

    class Murderous(list):
        def append(self, outcome) -> None:
            super().append(outcome)
            if not killed and len(crew.processes) == 2:
                killed.append(crew.processes[1].pid)
                os.kill(killed[0], signal.SIGKILL)

    summary = run_all(plan, crew, Murderous())
    assert killed and summary.count("made") == 9 and not summary.failed
    assert crew.processes == {}
    whole = plan_for(manifest, tmp_path / "whole", tiny_sd_folder)
    run_all(whole)
    assert pictures_of(plan.out) == pictures_of(whole.out)


@pytest.mark.slow
def test_a_worker_that_cannot_begin_says_why(tmp_path: Path):
    plan = plan_for(make_bench(tmp_path / "bench"), tmp_path / "out", tmp_path / "no-model")
    with pytest.raises(InputError, match="no such model"):
        run_all(plan, Pool(plan, 2))


def test_a_benchmark_that_was_moved_with_its_pictures_goes_on_and_is_found(
    tmp_path: Path, tiny_sd_folder: Path
):
    """Nothing in it names the folder it was made in."""
    from mast.bench.report.results import read_runs

    here, there = tmp_path / "here", tmp_path / "there"
    make_bench(here / "bench")
    first = plan_for(here / "bench/manifest.jsonl", here / "runs", tiny_sd_folder)
    assert run_all(first).count("made") == 4
    (here / "runs/mast/n2-t0-photo0.png").unlink()
    here.rename(there)
    texts = [path.read_text() for path in there.rglob("*.json*")]
    assert texts and not any(str(here) in text for text in texts)
    again = run_all(plan_for(there / "bench/manifest.jsonl", there / "runs", tiny_sd_folder))
    assert (again.count("made"), again.count("already")) == (1, 3)
    manifest, runs = read_runs(there / "runs")
    assert manifest.path == there / "bench/manifest.jsonl" and len(runs[0].done) == 4
