"""The interface of segmenters: prompts that point somewhere, answers that are masks, and your own class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError
from mast.regions.auto import divide
from mast.regions.segment import Prompt, Proposal, check_prompt, load_own, propose, select
from tests.regions.tiny_onnx import write_network

SIZE = (60, 40)
PHOTO = Image.new("RGB", SIZE)
DOCS = Path(__file__).parents[2] / "docs" / "regions.md"


class Answers:
    """A segmenter that answers what it was given."""

    name = "answers"

    def __init__(self, mask: Any):
        self.mask = mask

    def select(self, photo: Image.Image, prompt: Prompt) -> Any:
        return self.mask

    def propose(self, photo: Image.Image) -> list[Proposal]:
        return [Proposal(self.mask, 1.0)]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (Prompt(at=((60, 10),)), "the click 60,10 is outside the photo; the photo is 60x40: x from 0 to 59"),
        (Prompt(at=((-1, 10),)), "the click -1,10 is outside"),
        (Prompt(at=((5, 5),), away=((5, 40),)), "the click 5,40 is outside"),
        (Prompt(at=((float("nan"), 5),)), "the click nan,5 is outside"),
        (Prompt(), "nothing says where the object is"),
        (Prompt(away=((5, 5),)), "nothing says where the object is"),
        (Prompt(box=(10, 10, 10, 20)), "the box 10,10,10,20 is empty or leaves the photo"),
        (Prompt(box=(20, 10, 10, 20)), "left, upper, right and lower"),
        (Prompt(box=(0, 0, 61, 40)), "leaves the photo"),
        (Prompt(box=(-1, 0, 20, 40)), "leaves the photo"),
        (Prompt(box=(0, 0, float("inf"), 40)), "leaves the photo"),
    ],
)
def test_a_prompt_that_points_nowhere_is_refused(prompt: Prompt, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        select(Answers(np.ones((40, 60))), PHOTO, prompt)


@given(st.floats(0, 59), st.floats(0, 39), st.floats(0, 57), st.floats(0, 37))
def test_a_prompt_inside_is_taken(x: float, y: float, left: float, top: float) -> None:
    check_prompt(Prompt(at=((x, y),)), SIZE)
    check_prompt(Prompt(box=(left, top, 60, 40)), SIZE)


@pytest.mark.parametrize(
    "mask",
    [
        np.ones((60, 40)),
        np.ones((1, 40, 60)),
        np.ones((40, 60), np.uint8),
        np.full((40, 60), 2.0),
        np.full((40, 60), -0.1),
        np.full((40, 60), np.nan),
        None,
        "mask",
    ],
)
def test_an_answer_that_is_no_mask_is_refused_by_the_segmenters_name(mask: Any) -> None:
    for ask in (
        lambda: select(Answers(mask), PHOTO, Prompt(at=((1, 1),))),
        lambda: propose(Answers(mask), PHOTO),
    ):
        with pytest.raises(InputError, match="answers gave a mask"):
            ask()


def test_bool_is_a_mask_and_an_empty_one_is_said() -> None:
    mask = np.zeros((40, 60), bool)
    with pytest.raises(InputError, match="answers found no object there; click into the middle"):
        select(Answers(mask), PHOTO, Prompt(at=((1, 1),)))
    mask[5:9] = True
    found = select(Answers(mask), PHOTO, Prompt(at=((1, 1),)))
    assert found.dtype == np.float32 and np.array_equal(found, mask)


# ------------------------------------------------------------ your own


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example of docs/regions.md as a file, beside the network that it loads."""
    (code,) = re.findall(r"```python\n(# my_segmenter\.py\n.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "my_segmenter.py").write_text(code)
    write_network(tmp_path / "my_network.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "my_segmenter.py"


def test_the_documented_class_divides_a_photo(documented: Path) -> None:
    own = load_own(f"{documented}:MySegmenter", "propose")
    pixels = np.full((64, 96, 3), 10, np.uint8)
    pixels[10:40, 20:60] = 250
    made = divide(Image.fromarray(pixels), 2, own)
    assert made.notes == [] and made.regions.names == ("object", "background")
    assert made.regions.masks[0, 20, 40] == 1 and made.regions.masks[1, 60, 90] == 1


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (None, "gone.py:Mine", "no segmenter of this name; write FILE.py:CLASS"),
        (None, "mobilesam", "no segmenter of this name"),
        ("x = 1", "own.py:Mine", "cannot be made (AttributeError"),
        ("import nowhere_to_be_found", "own.py:Mine", "cannot be made (ModuleNotFoundError"),
        ("class Mine: name = 'x'", "own.py:Mine", "a method propose()"),
        ("class Mine:\n def propose(self, photo): pass", "own.py:Mine", "a segmenter has a name"),
    ],
)
def test_a_class_that_is_no_segmenter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str | None, text: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if code is not None:
        (tmp_path / "own.py").write_text(code)
    with pytest.raises(InputError, match=re.escape(words)):
        load_own(text, "propose")
