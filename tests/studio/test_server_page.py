"""The programs in docs/studio-server.md run, against a real studio."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.studio.conftest import ALPHA, LEFT, PHOTO, STYLE_A

PAGE = Path(__file__).parents[2] / "docs" / "studio-server.md"


def block(language: str, studio) -> str:
    """The one program of a language, for this studio, and as small as possible."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "http://127.0.0.1:8421" in text and "TOKEN" in text and '"draft' in text.replace("\\", "")
    text = text.replace("http://127.0.0.1:8421", studio.address).replace("TOKEN", ALPHA)
    return re.sub(r'(\\?")preset\\?": \\?"draft\\?"', r"\1size\1: 64, \1steps\1: 3", text)


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name, data in (("photo.jpg", PHOTO), ("waves.png", STYLE_A), ("mask.png", LEFT)):
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_program(studio, here):
    exec(compile(block("python", studio), str(PAGE), "exec"), {})
    assert Image.open("painted.png").size == (96, 64)
    assert (here / "painted.zip").read_bytes().startswith(b"PK")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_shell_program(studio, here):
    subprocess.run(["bash", "-euo", "pipefail", "-c", block("sh", studio)], check=True, timeout=300)
    assert Image.open("painted.png").size == (96, 64)
    assert "event: state" in (here / "events.txt").read_text()
