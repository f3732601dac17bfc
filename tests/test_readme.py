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
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_shell_example_makes_a_picture_and_makes_it_again_bit_by_bit(checkout: Path):
    (script,) = blocks("sh")
    said = run(["bash", "-e", "-c", script], checkout)
    assert "bit-equal" in said
    assert Image.open(checkout / "cat.png").size == Image.open(ROOT / "examples/photos/cat.jpg").size
    assert (checkout / "cat.sheet.png").exists()


@pytest.mark.slow
def test_the_python_example_makes_a_picture(checkout: Path):
    (script,) = blocks("python")
    said = run([sys.executable, "-c", script], checkout)
    assert "denoise" in said
    assert Image.open(checkout / "coffee.png").size == Image.open(ROOT / "examples/photos/coffee.jpg").size


def test_what_the_readme_points_to_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target
