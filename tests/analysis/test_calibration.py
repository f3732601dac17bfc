"""The tau calibration of App. A.4."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast import default_settings
from mast.analysis.calibration import (
    GRID,
    Gaps,
    calibrate,
    check_model_folder,
    fit,
    matching_factors,
    starting_method,
    write_defaults,
)
from mast.analysis.observe import observe
from mast.core import sts
from mast.job import InputError, Job, Region, Settings
from tests.tiny import picture


@given(st.integers(0, 1000), st.floats(-4, -0.5))
def test_halving_finds_what_trying_all_factors_finds(seed: int, target: float):
    joint = torch.randn(3, 12, 30, generator=torch.Generator().manual_seed(seed)) * 2
    at = lambda tau: sts.log_peak(joint * tau.view(-1, 1, 1)).mean(-1)
    residuals = torch.stack([(target - at(torch.full((3,), float(tau)))).abs() for tau in GRID])
    found = matching_factors(at, torch.full((3,), target))
    places = torch.tensor([int(np.argmin(np.abs(GRID - float(tau)))) for tau in found])
    assert torch.allclose(residuals[places, torch.arange(3)], residuals.min(0).values, atol=1e-5)


def test_the_fit_returns_the_coefficients_that_made_the_data():
    gap = np.linspace(-1, 3, 200)
    pairs = np.stack([gap, 0.1 * gap**2 + 0.5 * gap + 1], 1)
    found = fit(pairs)
    assert np.allclose(found.coefficients, (0.1, 0.5, 1), atol=1e-6)
    assert found.r2[1] < found.r2[2] and found.r2[2] > 1 - 1e-9
    assert found.option == "0.10000/0.50000/1.00000"
    with pytest.raises(InputError, match="too few"):
        fit(pairs[:3])


def test_every_head_site_and_step_gives_one_observation(tiny_backbone):
    job = Job(picture(64, 64, 1), (Region(picture(64, 64, 2)),))
    found = calibrate([job], tiny_backbone, Settings(steps=3, size=64, cache=False))
    heads = sum(site.heads for site in tiny_backbone.sites)
    assert found.observations == heads * 2  # two moves for three timesteps
    assert set(np.round(found.pairs[:, 1], 6)) <= set(np.round(GRID, 6))


def test_the_papers_grid_gives_480_000_observations(tiny_backbone):
    """App. A.4: 200 samples x 6 layers x 8 heads x 50 steps. One sample stands for the 200."""
    job = Job(picture(64, 64, 1), (Region(picture(64, 64, 2)),))
    paper = default_settings(tiny_backbone, "paper", size=64, cache=False)
    gaps = Gaps()
    for _ in observe([job], tiny_backbone, paper, starting_method(tiny_backbone), gaps):
        pass
    assert [site.heads for site in tiny_backbone.sites] == [8] * 6
    assert len(gaps.pairs) == 6 * 8 * 50 == 480_000 // 200
    assert {row[1] for row in gaps.seen} == set(range(50))


def test_a_models_defaults_take_the_coefficients_and_keep_the_rest(tmp_path):
    gap = np.linspace(-1, 3, 20)
    found = fit(np.stack([gap, 0.1 * gap**2 + 0.5 * gap + 1], 1))
    with pytest.raises(InputError, match="no model folder"):
        check_model_folder("preview")
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text("{}")
    path = check_model_folder(str(tmp_path))
    write_defaults(path, found)
    assert json.loads(path.read_text()) == {"mast": {"tau": [0.1, 0.5, 1.0]}}
    path.write_text('{"preset": "fast", "mast": {"lam": 0.3, "tau": 2}}')
    write_defaults(path, found)
    assert json.loads(path.read_text()) == {"preset": "fast", "mast": {"lam": 0.3, "tau": [0.1, 0.5, 1.0]}}
