"""Files of every kind that people have, good and bad."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in a folder of its own, and with a cache of its own."""
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "mast-cache"))
    monkeypatch.chdir(tmp_path)
    assert os.environ["MAST_CACHE"].startswith(str(tmp_path))
    return tmp_path
