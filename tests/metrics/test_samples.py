"""What is evaluated: results with records, folders whose names belong together, what can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mast.job import InputError, Region
from mast.metrics.samples import EvaluatedPicture, from_folders, from_results, read_regions
from tests.tiny import picture


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Two results: x with a style for each half, y with styles in a folder and a left-over region."""
    made = {name: tmp_path / name for name in ("stylized", "content", "styles", "masks")}
    for folder in made.values():
        folder.mkdir()
    half = np.zeros((40, 40), np.uint8)
    half[:, :20] = 255
    for name in ("x", "y"):
        picture(40, 40, 1).save(made["stylized"] / f"{name}.png")
        picture(40, 40, 2).save(made["content"] / f"{name}.jpg")
    for i, mask in enumerate((half, 255 - half)):
        picture(40, 40, 3 + i).save(made["styles"] / f"x-{i}.png")
        Image.fromarray(mask).save(made["masks"] / f"x-{i}.png")
    (made["styles"] / "y").mkdir()
    for i in range(2):
        picture(40, 40, 5 + i).save(made["styles"] / "y" / f"{i}.png")
    Image.fromarray(half).save(made["masks"] / "y.png")
    return made


def test_names_say_what_belongs_together(folders: dict[str, Path]) -> None:
    found = from_folders(*folders.values())
    assert [sample.name for sample in found.samples] == ["x", "y"] and not found.problems
    x, y = found.samples
    assert [Path(str(r.style)).name for r in x.regions] == ["x-0.png", "x-1.png"]
    assert [Path(str(r.mask)).name for r in x.regions] == ["x-0.png", "x-1.png"]
    assert [r.mask is None for r in y.regions] == [False, True]  # the last style takes what is left over


def test_styles_without_names_are_a_set(folders: dict[str, Path], tmp_path: Path) -> None:
    some = tmp_path / "some"
    some.mkdir()
    picture(40, 40, 3).save(some / "monet.png")
    found = from_folders(folders["stylized"], folders["content"], some, folders["masks"])
    assert found.styles == [some / "monet.png"] and found.samples[0].regions == ()
    assert any("all 1 styles" in note for note in found.notes) and any(
        "not used" in note for note in found.notes
    )


def test_what_is_missing_is_listed(folders: dict[str, Path]) -> None:
    (folders["content"] / "x.jpg").unlink()
    (folders["styles"] / "y" / "1.png").unlink()
    (folders["masks"] / "y.png").unlink()
    picture(40, 40).save(folders["styles"] / "y" / "1.png")
    picture(40, 40).save(folders["styles"] / "y" / "2.png")
    found = from_folders(*folders.values())
    assert found.samples == [] and len(found.problems) == 2
    assert any("no photo called x" in text for text in found.problems.values())
    assert any("0 masks for the 3 styles of y" in text for text in found.problems.values())


@pytest.mark.parametrize("which", [0, 1])
def test_folders_must_be_there_and_hold_pictures(
    which: int, folders: dict[str, Path], tmp_path: Path
) -> None:
    given = [folders["stylized"], folders["content"]]
    given[which] = tmp_path / "nowhere"
    with pytest.raises(InputError, match="nowhere: no such folder"):
        from_folders(*given)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no pictures"):
        from_folders(tmp_path / "empty", folders["content"])


def test_results_carry_their_own_record(tmp_path: Path, job, tiny_backbone, quick) -> None:
    from mast import stylize

    result = stylize(job, tiny_backbone, "mast", quick)
    (tmp_path / "deep").mkdir()
    result.save(tmp_path / "a.png")
    result.save(tmp_path / "deep" / "b.png")
    (tmp_path / "deep" / "b.json").unlink()  # the PNG carries the record too
    picture(40, 40).save(tmp_path / "contact-sheet.png")
    (tmp_path / "report.json").write_text('{"fid": 1}')
    found = from_results(tmp_path)
    assert [sample.name for sample in found.samples] == ["a", "deep/b"] and not found.problems
    assert [Path(str(r.style)) for r in found.samples[0].regions] == [r.style for r in job.regions]
    assert len(found.notes) == 1 and "contact-sheet.png" in found.notes[0]
    for i in range(4):
        picture(40, 40, i).save(tmp_path / f"photo{i}.jpg")
    (note,) = from_results(tmp_path).notes
    assert "photo1.jpg and 2 more: without a record" in note
    (tmp_path / "a.png").unlink()
    (tmp_path / "deep" / "b.png").write_bytes(b"damaged")
    found = from_results(tmp_path)
    assert len(found.problems) == 2 and not found.samples
    assert any("missing" in text for text in found.problems.values())


def test_results_may_be_saved_in_other_formats(tmp_path: Path, job, tiny_backbone, quick) -> None:
    from mast import stylize

    result = stylize(job, tiny_backbone, "mast", quick)
    for name in ("a.png", "b.jpg"):
        result.save(tmp_path / name)
    found = from_results(tmp_path)
    assert [sample.name for sample in found.samples] == ["a", "b.jpg"] and not found.problems


def test_a_record_that_lacks_something_is_a_problem(tmp_path: Path) -> None:
    picture(40, 40).save(tmp_path / "a.png")
    record = {"content": {}, "regions": [{"style": None}], "settings": {}, "method": {}}
    (tmp_path / "a.json").write_text(json.dumps(record))
    found = from_results(tmp_path)
    assert not found.samples and list(found.problems) == [str(tmp_path / "a.png")]
    assert "its record is damaged" in found.problems[str(tmp_path / "a.png")]


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        from_results(tmp_path / "nowhere")
    picture(40, 40).save(tmp_path / "photo.png")
    with pytest.raises(InputError, match="no result with its record"):
        from_results(tmp_path)


def test_regions_lose_their_overlap_and_may_be_empty(tmp_path: Path) -> None:
    masks = np.zeros((3, 40, 40), np.uint8)
    masks[0, :, :20] = 255
    masks[1, :, 10:30] = 255
    for i, mask in enumerate(masks):
        Image.fromarray(mask).save(tmp_path / f"{i}.png")
    regions = tuple(Region("s.png", tmp_path / f"{i}.png") for i in range(3))
    notes: list[str] = []
    read = read_regions(
        EvaluatedPicture("a", tmp_path, tmp_path, (*regions, Region("t.png"))), (40, 40), notes
    )
    torch.testing.assert_close(read.sum(0), torch.ones(40, 40))
    assert read[0, 0, 15] == 0.5 and read[2].max() == 0 and read[3, 0, 35] == 1
    assert "overlap on 25.0%" in notes[0]
    with pytest.raises(InputError, match="more than one region without a mask"):
        read_regions(EvaluatedPicture("a", tmp_path, tmp_path, (Region("s"), Region("t"))), (40, 40), notes)
    with pytest.raises(InputError, match="another shape"):
        read_regions(EvaluatedPicture("a", tmp_path, tmp_path, regions), (80, 20), notes)
