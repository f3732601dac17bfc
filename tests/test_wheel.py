"""A wheel built from the project holds the embedded model and the examples, and works elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_wheel_carries_model_and_examples_and_works_elsewhere(tmp_path: Path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "elsewhere"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    assert (
        place / "mast/backbone/preview/model/unet/diffusion_pytorch_model.safetensors"
    ).stat().st_size > 40e6
    assert {"cat.toml", "two-styles.toml"} <= {path.name for path in (place / "mast/examples").iterdir()}
    page = ROOT / "src/mast/studio/page"
    assert {path.name for path in (place / "mast/studio/page").iterdir()} == {
        path.name for path in page.iterdir()
    }
    script = (
        "import mast, torch; from mast.examples import case_job, examples_folder, load_cases;"
        "backbone = mast.load(); folder = examples_folder();"
        "job = case_job(load_cases(folder)[0], folder);"
        "settings = mast.default_settings(backbone, size=64, steps=2, cache=False);"
        "print(mast.__file__, folder, mast.stylize(job, backbone, settings=settings).image.size)"
    )
    environment = {**os.environ, "PYTHONPATH": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert str(place) in done.stdout and str(ROOT) not in done.stdout
