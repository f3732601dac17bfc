"""The tau calibration of App. A.4."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast.analysis.calibration import GRID, calibrate, fit, matching_factor
from mast.core import sts
from mast.job import Job, Region, Settings
from tests.tiny import picture


@given(st.integers(0, 1000), st.floats(-4, -0.5))
def test_halving_finds_what_trying_all_factors_finds(seed: int, target: float):
    joint = torch.randn(12, 30, generator=torch.Generator().manual_seed(seed)) * 2
    residuals = [abs(target - float(sts.log_peak(joint * float(tau)).mean())) for tau in GRID]
    found = matching_factor(joint, target)
    assert abs(residuals[int(np.argmin(np.abs(GRID - found)))] - min(residuals)) < 1e-5


def test_the_fit_returns_the_coefficients_that_made_the_data():
    gap = np.linspace(-1, 3, 200)
    pairs = np.stack([gap, 0.1 * gap**2 + 0.5 * gap + 1], 1)
    found = fit(pairs)
    assert np.allclose(found.coefficients, (0.1, 0.5, 1), atol=1e-6)
    assert found.r2[1] < found.r2[2] and found.r2[2] > 1 - 1e-9


def test_every_head_site_and_step_gives_one_observation(tiny_backbone):
    job = Job(picture(64, 64, 1), (Region(picture(64, 64, 2)),))
    found = calibrate([job], tiny_backbone, Settings(steps=3, size=64, cache=False))
    heads = sum(site.heads for site in tiny_backbone.sites)
    assert found.observations == heads * 2  # two moves for three timesteps
    assert set(np.round(found.pairs[:, 1], 6)) <= set(np.round(GRID, 6))
