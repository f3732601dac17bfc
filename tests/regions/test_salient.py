"""What catches the eye: the frame around U2-Net, here around a tiny network, the largest of the channels."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.job import InputError
from mast.regions.salient import DEVIATION, MEAN, SalientObject
from mast.regions.segment import propose
from tests.regions.tiny_onnx import write_network


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> SalientObject:
    return SalientObject(write_network(tmp_path_factory.mktemp("onnx") / "u2netp.onnx"))


def grey(width: int, height: int, levels: np.ndarray | int) -> Image.Image:
    return Image.fromarray(np.full((height, width, 3), levels, np.uint8))


def test_the_network_sees_the_photo_as_it_was_trained(segmenter: SalientObject) -> None:
    """Levels are divided by the brightest, then mean and deviation apply; the largest channel is left."""
    levels = np.full((64, 96, 3), 40)
    levels[:, :48] = 160  # the brightest
    seen = segmenter.probability(grey(96, 64, levels))
    assert seen.shape == (64, 96) and seen.dtype == np.float32
    dark = max((0.25 - m) / d for m, d in zip(MEAN, DEVIATION, strict=True))
    assert seen[:, :40].min() == 1  # above 1, and cut there
    assert seen[:, 60:].max() == pytest.approx(max(0, dark), abs=1e-3)


def test_one_object_or_none(segmenter: SalientObject) -> None:
    levels = np.full((64, 96, 3), 20)
    levels[16:48, 30:60] = 255
    (found,) = propose(segmenter, grey(96, 64, levels))
    assert found.mask[32, 45] > 0.9 and found.mask[2, 2] == 0 and found.score == 1


def test_a_photo_without_anything_has_no_object(tmp_path: Path) -> None:
    nothing = SalientObject(write_network(tmp_path / "x.onnx", "ReduceMin"))
    dark = np.full((64, 64, 3), 30)
    dark[0, 0, 0] = 255  # in one channel of three
    assert nothing.propose(grey(64, 64, dark)) == []


def test_a_black_photo_is_no_division_by_zero(segmenter: SalientObject) -> None:
    assert segmenter.propose(grey(32, 32, 0)) == []


def test_a_file_that_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    with pytest.raises(InputError, match=r"bad\.onnx: not a network that onnxruntime can read"):
        SalientObject(tmp_path / "bad.onnx")
    with pytest.raises(InputError, match=r"gone\.onnx: no such file"):
        SalientObject(tmp_path / "gone.onnx")


def test_without_onnxruntime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'mast\[segment\]'"):
        SalientObject()
