"""The manifest: written and read alike, its files verified by name, damage told by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mast.bench.data.manifest import (
    BenchRegion,
    BenchSample,
    File,
    Header,
    Manifest,
    read,
    safe_id,
    verify,
    write,
)
from mast.files import sha256
from mast.job import InputError


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Two samples; masks inside the benchmark's folder, photos and styles beside it."""
    home = tmp_path / "bench"
    (home / "masks").mkdir(parents=True)

    def file(path: Path) -> File:
        path.write_text(path.name)
        return File(path, sha256(path))

    masks = [file(home / "masks" / f"{i}.png") for i in range(2)]
    styles = [file(tmp_path / f"style-é{i}.png") for i in range(2)]
    photo = file(tmp_path / "photo.png")
    regions = tuple(BenchRegion(*r) for r in zip(("cat", "background"), masks, styles, strict=True))
    samples = tuple(BenchSample(f"n2-t00{t}-photo", 2, t, photo, regions) for t in range(2))
    made = Manifest(home / "manifest.jsonl", Header(5, (2,), 1, 2, notes=("a note",)), samples)
    write(made)
    return made


def lines_of(manifest: Manifest) -> list[dict]:
    return [json.loads(line) for line in manifest.path.read_text().splitlines()]


def test_what_is_written_is_read(manifest: Manifest) -> None:
    again = read(manifest.path)
    assert again == manifest
    assert again.sha256 == sha256(manifest.path)
    assert read(manifest.path.parent) == manifest  # the folder will do
    assert again.counts() == {2: 2} and again.of(3) == []


def test_the_file_reads_as_agreed(manifest: Manifest) -> None:
    header, sample, _ = lines_of(manifest)
    assert header == {
        "kind": "mast-bench",
        "version": 1,
        "seed": 5,
        "n": [2],
        "contents": 1,
        "styles": 2,
        "unannotated": "background",
        "source": "coco",
        "notes": ["a note"],
    }
    assert list(sample) == ["id", "n", "tuple", "content", "regions"]
    assert sample["regions"][0]["mask"]["path"] == "masks/0.png"  # inside: relative
    assert sample["content"]["path"].startswith("../")  # outside: relative too, so that both may be moved


def test_a_benchmark_can_be_moved_with_its_masks(manifest: Manifest) -> None:
    home = manifest.path.parent
    moved = home.rename(home.with_name("elsewhere"))
    verify(read(moved))
    assert read(moved).samples[0].regions[0].mask.path == moved / "masks" / "0.png"


def test_a_sample_is_a_job(manifest: Manifest) -> None:
    job = read(manifest.path).samples[0].job()
    assert [Path(str(job.content)).name, len(job.regions)] == ["photo.png", 2]
    assert [Path(str(r.mask)).name for r in job.regions] == ["0.png", "1.png"]
    assert [Path(str(r.style)).name for r in job.regions] == ["style-é0.png", "style-é1.png"]


def test_all_that_is_missing_or_changed_is_named_at_once(manifest: Manifest) -> None:
    counted: list[tuple[str, int, int]] = []
    verify(manifest, lambda *step: counted.append(step))
    assert counted[-1] == ("verify", 5, 5)  # each file once, however many samples use it
    first = manifest.samples[0]
    first.content.path.unlink()
    first.regions[1].style.path.write_text("another painting")
    with pytest.raises(InputError) as caught:
        verify(manifest)
    text = str(caught.value)
    assert "2 of 5 files" in text
    assert f"{first.content.path}: missing" in text
    assert f"{first.regions[1].style.path}: changed" in text
    assert str(first.regions[0].style.path) not in text


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        (0, {"kind": "other"}, "line 1: this is no manifest"),
        (0, {"version": 2}, "reads version 1"),
        (1, {"id": "../escape"}, "cannot be a file's name"),
        (1, {"n": 3}, "2 regions where n is 3"),
        (2, {"tuple": "1"}, "line 3"),
        (2, {"content": None}, "line 3"),
        (2, {"id": "N2-T000-photo"}, "more than one sample"),
    ],
)
def test_damage_is_told_by_line(manifest: Manifest, number: int, change: dict, words: str) -> None:
    entries = lines_of(manifest)
    entries[number].update(change)
    manifest.path.write_text("\n".join(map(json.dumps, entries)))
    with pytest.raises(InputError) as caught:
        read(manifest.path)
    assert words in str(caught.value) and str(manifest.path) in str(caught.value)


@pytest.mark.parametrize("cut", [0, 40, -20])
def test_a_file_that_was_cut_short_is_refused(manifest: Manifest, cut: int) -> None:
    manifest.path.write_bytes(manifest.path.read_bytes()[:cut])
    with pytest.raises(InputError, match="manifest"):
        read(manifest.path)


def test_a_header_alone_is_no_benchmark(manifest: Manifest) -> None:
    manifest.path.write_text(manifest.path.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match="holds no sample"):
        read(manifest.path)
    with pytest.raises(InputError, match="no such manifest"):
        read(manifest.path.parent / "masks")


def test_ids_that_are_safe() -> None:
    assert safe_id("n2-t000-cat") and safe_id("0") and safe_id("a.b_c")
    assert not any(safe_id(text) for text in ("run", "Failed")), (
        "run.json and failed.jsonl are the folder's own"
    )
    assert not any(safe_id(text) for text in ("", ".hidden", "a/b", "a b", "..", "é", "a.", "x" * 201, "-x"))
