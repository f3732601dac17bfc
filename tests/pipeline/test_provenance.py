"""A picture carries all that is needed to make it again, bit by bit."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast import InputError, Job, Mast, Region, Settings, stylize
from mast.files import sha256
from mast.images import portable, read_provenance
from mast.pipeline.provenance import (
    FIELDS,
    checked_record,
    job_from,
    load_record,
    method_from,
    same_pixels,
)
from tests.tiny import run

pytestmark = pytest.mark.usefixtures("warm_cache")


@pytest.fixture
def full_job(pictures) -> Job:
    return Job(
        pictures["photo"],
        (
            Region(pictures["style_a"], pictures["left"], 0.7, pictures["right"]),
            Region(str(pictures["style_b"])),
        ),
    )


METHOD = Mast(lam=0.3, pi=0.8, r=0.4, tau=(0.1, 0.4, 1.1))
SETTINGS = {"steps": 3, "size": 64, "inversion": "refined", "fit": "pad", "keep_unassigned": "exact"}


def test_a_record_holds_everything(tiny_backbone, full_job, pictures):
    record = run(full_job, tiny_backbone, METHOD, **SETTINGS).result.provenance
    assert record["model"] == {"name": tiny_backbone.name, "fingerprint": tiny_backbone.fingerprint}
    assert record["torch"] == torch.__version__ and record["mast"]
    assert (record["device"], record["dtype"], record["prediction_type"]) == ("cpu", "float32", "epsilon")
    assert record["method"] == {"name": "mast", **METHOD.options()}
    assert record["settings"] == {**SETTINGS, "feature_dtype": "float16", "coarse": "off"}
    assert record["content"] == {"path": str(pictures["photo"]), "sha256": sha256(pictures["photo"])}
    first, second = record["regions"]
    assert first["strength"] == 0.7 and first["coverage"] == 0.5
    assert first["style_mask"]["path"] == str(pictures["right"]) and second["mask"] is None
    assert second["style"]["path"] == str(pictures["style_b"])


def test_a_record_is_plain_json_without_times(tiny_backbone, full_job):
    record = run(full_job, tiny_backbone, METHOD, **SETTINGS).result.provenance
    text = json.dumps(record)
    assert json.loads(text) == json.loads(
        json.dumps(run(full_job, tiny_backbone, METHOD, **SETTINGS).result.provenance)
    )
    assert "seconds" not in text and "time" not in json.loads(text)


@pytest.mark.parametrize("place", ["picture.png", "picture.json"])
def test_a_saved_picture_replays_its_run(tiny_backbone, full_job, tmp_path, place):
    made = run(full_job, tiny_backbone, METHOD, **SETTINGS)
    made.result.save(tmp_path / "picture.png")
    record = read_provenance(tmp_path / place)
    assert record == json.loads(json.dumps(portable(made.result.provenance, tmp_path)))
    method = method_from(record)
    assert method == METHOD
    again = stylize(job_from(record, tmp_path), tiny_backbone, method, Settings(**record["settings"]))
    assert same_pixels(again.image, made.result.image) == (True, 0, 0.0)
    assert json.loads(json.dumps(portable(again.provenance, tmp_path))) == record


def test_inputs_that_moved_are_found_beside_the_picture(tiny_backbone, pictures, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    for name in ("photo", "style_a", "left"):
        shutil.copy(pictures[name], old)
    job = Job(old / "photo.png", (Region(old / "style_a.png", old / "left.png"),))
    record = run(job, tiny_backbone, steps=2).result.provenance
    for path in list(old.iterdir()):
        shutil.move(path, new)
    assert Path(job_from(record, new).content) == new / "photo.png"
    (new / "left.png").unlink()
    with pytest.raises(InputError, match=r"left\.png: the mask is not there"):
        job_from(record, new)


def test_an_input_that_changed_is_refused(tiny_backbone, pictures, tmp_path):
    photo = Path(shutil.copy(pictures["photo"], tmp_path / "photo.png"))
    record = run(Job(photo), tiny_backbone, steps=2).result.provenance
    shutil.copy(pictures["style_a"], photo)
    with pytest.raises(InputError, match=r"photo\.png: the photo has changed"):
        job_from(record, tmp_path)


def test_pixels_that_came_from_memory_are_recorded_by_hash_and_not_replayed(tiny_backbone):
    pixels = np.zeros((64, 64, 3), np.uint8)
    record = run(Job(pixels), tiny_backbone, steps=2).result.provenance
    assert record["content"]["path"] is None and record["content"]["shape"] == [64, 64, 3]
    other = run(Job(pixels + 1), tiny_backbone, steps=2).result.provenance
    assert record["content"]["sha256"] != other["content"]["sha256"]
    with pytest.raises(InputError, match="given as pixels"):
        job_from(record, Path("."))


def test_records_with_an_unknown_method_are_refused():
    with pytest.raises(InputError, match="did you mean 'mast'"):
        method_from({"method": {"name": "mastt"}})


def test_pictures_that_differ_are_measured():
    from PIL import Image

    a, b = Image.new("RGB", (4, 4)), Image.new("RGB", (4, 4))
    b.putpixel((0, 0), (0, 9, 0))
    assert same_pixels(a, b) == (False, 9, 1 / 16)
    assert same_pixels(a, Image.new("RGB", (4, 5)))[0] is False


def test_a_saved_record_names_no_folder_above_it_and_moves_along(tiny_backbone, full_job, tmp_path, pictures):
    """Paths are relative to the picture, so the folder can be sent to somebody else."""
    done = run(full_job, tiny_backbone, METHOD, **SETTINGS).result
    home = pictures["photo"].parent
    done.save(home / "made.png")
    text = (home / "made.json").read_text()
    assert str(home) not in text and json.loads(text)["content"]["path"] == pictures["photo"].name
    moved = tmp_path / "elsewhere"
    shutil.copytree(home, moved)
    found = job_from(load_record(moved / "made.png"), moved)
    assert Path(found.content).parent == moved


WRONG = {
    "threads": [0, True, 2**31, "2", None],
    "model": [None, [], {}, {"name": 1, "fingerprint": "x"}],
    "method": [None, {"name": 3}, {}],
    "settings": [None, [1]],
    "content": [None, {"path": "a"}, {"path": "a\0b", "sha256": "0" * 64}, {"path": "a", "sha256": "zz"}],
    "regions": [None, {}, [1], [{}], [{"style": None, "mask": None, "strength": 1, "style_mask": None}]],
    "device": [None, 1, ""],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in WRONG.items() for value in values]
)
def test_a_record_of_wrong_types_is_refused_by_name(tiny_backbone, full_job, key, value):
    record = run(full_job, tiny_backbone, METHOD, **SETTINGS).result.provenance
    checked_record(record, "good.png")
    with pytest.raises(InputError, match=r"bad\.png: its record"):
        checked_record({**record, key: value}, "bad.png")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON))
def test_arbitrary_records_are_refused_in_words(record):
    with pytest.raises(InputError):
        checked_record(record, "strange.png")
