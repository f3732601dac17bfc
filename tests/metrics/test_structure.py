"""CFSD and SSIM against their definitions, written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mast.job import InputError
from mast.metrics import structure
from mast.metrics.structure import Cfsd, ssim
from tests.tiny import picture


def pixels(seed: int, width: int = 48, height: int = 40) -> torch.Tensor:
    return (
        torch.from_numpy(np.array(picture(width, height, seed))).permute(2, 0, 1).unsqueeze(0).float() / 255
    )


@pytest.fixture(scope="module")
def cfsd(tmp_path_factory: pytest.TempPathFactory) -> Cfsd:
    torch.manual_seed(0)
    widths = [(3, 64), (64, 64), (64, 128), (128, 128), (128, 256)]
    layers = [(torch.randn(o, i, 3, 3) * (2 / (9 * i)) ** 0.5, torch.randn(o) * 0.1) for i, o in widths]
    path: Path = tmp_path_factory.mktemp("weights") / "any"
    path.write_bytes(b"any")
    return Cfsd("vgg16", [(5 * kernel, bias) for kernel, bias in layers], path)


def test_cfsd_is_the_published_formula(cfsd: Cfsd, monkeypatch: pytest.MonkeyPatch) -> None:
    result, photo = pixels(1), pixels(2)
    got, wanted = cfsd.features(result)[0], cfsd.features(photo)[0]
    dense = F.kl_div((got @ got.T).log_softmax(-1), (wanted @ wanted.T).softmax(-1), reduction="sum")
    assert float(dense) > 0.1
    monkeypatch.setattr(structure, "ROWS", 7)
    assert float(cfsd(result, photo)) == pytest.approx(float(dense), rel=1e-4)


def test_cfsd_of_a_picture_with_itself_is_zero_and_batches_are_separate(cfsd: Cfsd) -> None:
    photos = torch.cat([pixels(1), pixels(2)])
    results = torch.cat([pixels(1), pixels(3)])
    values = cfsd(results, photos)
    assert float(values[0]) == pytest.approx(0, abs=1e-6)
    assert float(values[1]) == pytest.approx(float(cfsd(pixels(3), pixels(2))), rel=1e-4)


def test_ssim_is_wangs_formula() -> None:
    a, b = pixels(1, 16, 16)[:, :1], pixels(2, 16, 16)[:, :1]
    x = np.arange(11) - 5
    window = np.exp(-(x**2) / 4.5)
    window = np.outer(window, window) / window.sum() ** 2
    values = []
    for row in range(6):
        for column in range(6):
            p, q = (image[0, 0, row : row + 11, column : column + 11].double().numpy() for image in (a, b))
            m, n = (window * p).sum(), (window * q).sum()
            vp, vq = (window * (p - m) ** 2).sum(), (window * (q - n) ** 2).sum()
            cov = (window * (p - m) * (q - n)).sum()
            values.append((2 * m * n + 1e-4) * (2 * cov + 9e-4) / ((m * m + n * n + 1e-4) * (vp + vq + 9e-4)))
    assert float(ssim(a, b)) == pytest.approx(np.mean(values), abs=1e-4)


def test_ssim_of_equal_pictures_is_one() -> None:
    assert float(ssim(pixels(1), pixels(1))) == pytest.approx(1)
    assert float(ssim(pixels(1), pixels(2))) < 0.9
    with pytest.raises(InputError, match="one size"):
        ssim(pixels(1), pixels(1, 40, 40))
    with pytest.raises(InputError, match="11 pixels"):
        ssim(torch.zeros(1, 3, 8, 20), torch.zeros(1, 3, 8, 20))
