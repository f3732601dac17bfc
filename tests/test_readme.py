"""The README's examples are run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the top of a checkout to whoever pastes a command there."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    """Nothing is fetched: regions are found without a segmenter then."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_shell_examples_make_pictures_and_make_one_again_bit_by_bit(checkout: Path):
    without_masks, with_masks = blocks("sh")
    said = run(["bash", "-e", "-c", without_masks], checkout)
    assert "bit-equal" in said and "no masks: finding 2 regions in cat.jpg" in said
    assert (checkout / "cat.regions.png").exists()
    run(["bash", "-e", "-c", with_masks], checkout)
    assert (checkout / "swapped.sheet.png").exists()
    for name in ("cat", "swapped"):
        assert Image.open(checkout / f"{name}.png").size == Image.open(ROOT / "examples/photos/cat.jpg").size


@pytest.mark.slow
def test_the_python_example_makes_a_picture(checkout: Path):
    (script,) = blocks("python")
    said = run([sys.executable, "-c", script], checkout)
    assert "denoise" in said
    assert Image.open(checkout / "coffee.png").size == Image.open(ROOT / "examples/photos/coffee.jpg").size


def test_what_the_readme_points_to_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
