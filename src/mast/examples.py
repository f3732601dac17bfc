"""The bundled pictures and the cases made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .job import InputError, Job, Region


def examples_folder() -> Path:
    """Inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / "cases.json").exists():
            return folder
    raise InputError(f"{package / 'examples'}: the bundled examples are missing; install mast again")


def load_cases(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "cases.json").read_text())


def case_job(case: dict[str, Any], folder: Path) -> Job:
    return Job(
        folder / case["content"],
        tuple(
            Region(folder / r["style"], folder / r["mask"] if r["mask"] else None, r.get("strength", 1.0))
            for r in case["regions"]
        ),
    )
