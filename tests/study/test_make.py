"""A study from real runs of a small benchmark: what it holds, what it does not tell, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.bench.data.manifest import read
from mast.images import read_rgb
from mast.job import InputError
from mast.study.folder import check_pictures, read_study, read_text
from mast.study.make import UNTOUCHED, choose, make
from tests.small_bench import plan_for, run_all
from tests.study.small_study import make_mixed_bench


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_sd_folder: Path) -> Iterator[Path]:
    """MAST and shared attention on eight samples, of two and of three regions."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAST_CACHE", str(folder / "cache"))
        manifest = make_mixed_bench(folder / "data")
        plan = plan_for(manifest, folder / "runs", tiny_sd_folder, "mast", "shared", settings={"steps": 2})
        assert not run_all(plan).failed
    yield folder / "runs"


@pytest.fixture
def broken(runs: Path, tmp_path: Path) -> Path:
    """The same runs, which a test may spoil."""
    for name in ("data", "runs"):
        shutil.copytree(runs.parent / name, tmp_path / name)
    return tmp_path / "runs"


def test_a_study_holds_all_that_people_see(runs: Path, tmp_path: Path):
    choice = choose([runs], ["Ours=mast", "shared"], seed=1)
    study = make(choice, tmp_path / "study", "Pictures")
    assert study == read_study(tmp_path / "study")
    check_pictures(study)
    assert study.methods == ("Ours", "shared")
    assert [case.n for case in study.cases] == [2, 3], "one for each N"
    manifest = read(runs.parent / "data")
    samples = {sample.id: sample for sample in manifest.samples}
    assert len({samples[case.sample].content.path for case in study.cases}) == 2, (
        "two photos, where there are"
    )
    for case in study.cases:
        sample = samples[case.sample]
        assert len(case.regions) == case.n

        def same(file: str, path: Path) -> bool:
            return bool((np.asarray(Image.open(study.picture(file))) == np.asarray(read_rgb(path))).all())

        assert same(case.photo, sample.content.path)
        for region, given in zip(case.regions, sample.regions, strict=True):
            assert same(region.style, given.style.path)
        for output in case.outputs:
            variant = {"Ours": "mast", "shared": "shared"}[output.method]
            assert output.variant == variant
            assert same(output.file, runs / variant / f"{sample.id}.png")
    assert study.practice.sample not in {case.sample for case in study.cases}
    for name in ("consent", "instructions", "thanks"):
        assert read_text(study, name).startswith("# ")


def test_nothing_but_the_key_tells_whose_a_picture_is(runs: Path, tmp_path: Path):
    make(choose([runs]), tmp_path / "study", "Pictures")
    for path in (tmp_path / "study").rglob("*"):
        assert not any(word in path.name for word in ("mast", "shared", "photo", "style", "n2-", "n3-")), path
        if path.is_file() and path.name != "study.json":
            data = path.read_bytes()
            assert b"shared" not in data and b"lama" not in data and b"photo0" not in data
        if path.suffix == ".png":
            with Image.open(path) as image:
                image.load()
                assert image.info == {}, "no text, no EXIF, no profile"


def test_made_again_it_is_the_same_and_another_seed_is_another(runs: Path, tmp_path: Path):
    for name, seed in (("a", 0), ("b", 0), ("c", 3)):
        make(choose([runs], seed=seed), tmp_path / name, "Pictures")
    files = {
        name: {
            p.relative_to(tmp_path / name): p.read_bytes()
            for p in (tmp_path / name).rglob("*")
            if p.is_file()
        }
        for name in "abc"
    }
    assert files["a"] == files["b"]
    assert files["a"].keys() != files["c"].keys()


def test_cases_by_hand_and_a_practice_page_where_nothing_is_left(broken: Path, tmp_path: Path):
    keep = ["n2-t0-photo0", "n3-t1-photo1"]
    for path in broken.glob("*/n*.png"):
        if path.stem not in keep:
            path.unlink()
    choice = choose([broken], cases=keep[::-1])
    study = make(choice, tmp_path / "study", "Pictures")
    assert [case.sample for case in study.cases] == keep[::-1]
    assert study.practice.outputs[0].variant == UNTOUCHED
    assert any("practice" in note for note in choice.notes)


def test_more_cases_of_one_n(runs: Path):
    choice = choose([runs], numbers=[3], per_n=3)
    assert [case.n for case in choice.cases] == [3, 3, 3] and len({case.id for case in choice.cases}) == 3
    with pytest.raises(InputError, match="N = 3: 4 of 5 cases"):
        choose([runs], numbers=[3], per_n=5)


def test_incomplete_cases_are_refused_by_name(broken: Path):
    (broken / "mast" / "n2-t0-photo0.png").unlink()
    failed = {"id": "n2-t0-photo1", "reason": "out of memory", "attempt": 1}
    (broken / "shared" / "n2-t0-photo1.png").unlink()
    (broken / "shared" / "failed.jsonl").write_text(json.dumps(failed) + "\n")
    record = broken / "mast" / "n3-t0-photo0.json"
    said = json.loads(record.read_text())
    said["content"]["sha256"] = "0" * 64
    record.write_text(json.dumps(said))
    with pytest.raises(InputError) as refused:
        choose([broken], cases=["n2-t0-photo0", "n2-t0-photo1", "n3-t0-photo0", "n2-t1-photo0"])
    lines = str(refused.value).splitlines()[1:]
    assert len(lines) == 3
    assert "n2-t0-photo0: mast has no picture of it (not made yet)" in lines[0]
    assert "n2-t0-photo1: shared has no picture of it (failed: out of memory)" in lines[1]
    assert "n3-t0-photo0: mast" in lines[2] and "made from other files" in lines[2]
    by_seed = choose([broken], numbers=[2], per_n=2)
    assert {case.id for case in by_seed.cases} == {"n2-t1-photo0", "n2-t1-photo1"}
    for path in (broken / "mast").glob("n2-*.png"):
        path.unlink()
    with pytest.raises(InputError, match=r"N = 2: 0 of 1 cases have a picture of every method:\n  n2-"):
        choose([broken])


def test_what_cannot_be_chosen_is_refused(runs: Path, broken: Path, tmp_path: Path):
    for match, arguments in {
        "no variant is called 'styleid'": {"asked": ["mast", "styleid"]},
        "a study compares at least two": {"asked": ["mast"]},
        "two methods have one label": {"asked": ["a=mast", "a=shared"]},
        "has no such sample": {"cases": ["n9-t0-photo0"]},
        "given twice": {"cases": ["n2-t0-photo0", "n2-t0-photo0"]},
        "no sample of 7 regions": {"numbers": [7]},
    }.items():
        with pytest.raises(InputError, match=match):
            choose([runs], **arguments)
    with pytest.raises(InputError, match="no such folder"):
        choose([tmp_path / "nothing"])
    with pytest.raises(InputError, match="in more than one of the run folders"):
        choose([runs, broken])
    (broken.parent / "data" / "photo0.png").write_bytes(b"changed")
    with pytest.raises(InputError, match="changed since the benchmark was made"):
        choose([broken], cases=["n2-t0-photo0"])


def test_variants_from_two_run_folders(runs: Path, broken: Path):
    shutil.rmtree(broken / "mast")
    moved = broken / "shared"
    moved.rename(broken / "other")
    choice = choose([runs, broken], ["mast", "shared", "other"])
    assert [of[2].name for of in choice.methods.values()] == ["mast", "shared", "other"]


def test_a_report_says_which_compositor_a_method_has_for_each_n(runs: Path, tmp_path: Path):
    rows = [
        {"method": "first", "variants": {"2": "mast", "3": "shared"}},
        {"method": "second", "variants": {"2": "shared", "3": "mast"}},
    ]
    (tmp_path / "report.json").write_text(json.dumps({"rows": rows}))
    choice = choose([runs], ["One=first", "Two=second"], report=tmp_path / "report.json")
    study = make(choice, tmp_path / "study", "Pictures")
    made_by = [{output.method: output.variant for output in case.outputs} for case in study.cases]
    assert made_by == [{"One": "mast", "Two": "shared"}, {"One": "shared", "Two": "mast"}]
    with pytest.raises(InputError, match="no method is called 'third'"):
        choose([runs], ["third"], report=tmp_path / "report.json")
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(InputError, match="no report of mast bench"):
        choose([runs], report=tmp_path / "report.json")


def test_answers_are_never_replaced(runs: Path, tmp_path: Path):
    choice = choose([runs])
    make(choice, tmp_path / "study", "Pictures")
    with pytest.raises(InputError, match="--overwrite"):
        make(choice, tmp_path / "study", "Pictures")
    make(choice, tmp_path / "study", "Other pictures", overwrite=True)
    (tmp_path / "study" / "answers.sqlite").write_bytes(b"x")
    with pytest.raises(InputError, match="holds people's answers"):
        make(choice, tmp_path / "study", "Pictures", overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("x")
    with pytest.raises(InputError, match="is no study"):
        make(choice, tmp_path / "mine", "Pictures", overwrite=True)


def test_an_edited_key_is_checked(runs: Path, tmp_path: Path):
    study = make(choose([runs]), tmp_path / "study", "Pictures")
    key = tmp_path / "study" / "study.json"
    good = json.loads(key.read_text())

    def refused(match: str, **changes: object) -> None:
        key.write_text(json.dumps({**good, **changes}))
        with pytest.raises(InputError, match=match):
            read_study(tmp_path / "study")

    refused("a scale of 40 points", scale={"points": 40, "low": "", "high": ""})
    refused("criteria need names of their own", criteria=[good["criteria"][0]] * 2)
    refused("has not one picture of every method", methods=["mast", "other"])
    refused("where the name of a picture must be", cases=[{**good["cases"][0], "photo": "../../key.png"}])
    refused("no study of mast", kind="something")
    edited = [{"name": "beauty", "label": "Beauty", "definition": "How beautiful it is."}]
    key.write_text(json.dumps({**good, "criteria": edited, "title": "Mine"}))
    assert read_study(tmp_path / "study").criteria[0].label == "Beauty"
    study.picture(study.cases[0].photo).unlink()
    study.picture(study.cases[0].overlay).write_bytes(b"other")
    with pytest.raises(InputError, match=r"2 of \d+ pictures are not the study's"):
        check_pictures(study)
    with pytest.raises(InputError, match=r"no study\.json in it"):
        read_study(tmp_path)
