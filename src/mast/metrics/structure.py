"""How much of a photo's structure is left: CFSD and SSIM, common beside LPIPS though not in the paper."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from ..files import sha256
from ..job import InputError
from ..weights.checkpoints import read_arrays, read_checkpoint
from ..weights.registry import OnBytes, locate
from .lpips import read_layers

NETS = ("vgg16", "vgg19")
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ROWS = 1024  # of the similarity map that exist at once


class Cfsd:
    """Content Feature Structural Distance (StyleID, https://arxiv.org/abs/2312.09008, supplement).

    Features F (hw, c) of relu3_1; S = softmax_rows(F F^T / c^2) says which patches of a picture resemble
    which; the distance is sum over rows of KL(S_photo || S_result). Published values use VGG-19; VGG-16 gives
    a scale of its own.
    """

    def __init__(
        self, net: str, layers: list[tuple[Tensor, Tensor]], path: Path, device: str | torch.device = "cpu"
    ):
        self.net, self.device, self.fingerprint = net, torch.device(device), sha256(path)[:16]
        self.layers = [(kernel.to(device), bias.to(device)) for kernel, bias in layers]
        self.mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
        self.deviation = torch.tensor(DEVIATION, device=device).view(1, 3, 1, 1)

    def features(self, images: Tensor) -> Tensor:
        """(b, 3, h, w) in [0, 1] -> (b, hw/16, 256) of relu3_1, divided by the channel count."""
        x = (images.to(self.device, torch.float32) - self.mean) / self.deviation
        for i, (kernel, bias) in enumerate(self.layers):
            if i in (2, 4):
                x = F.max_pool2d(x, 2)
            x = F.relu(F.conv2d(x, kernel, bias, padding=1), inplace=True)
        return x.flatten(2).transpose(1, 2) / x.shape[1]

    @torch.inference_mode()
    def __call__(self, results: Tensor, photos: Tensor) -> Tensor:
        """Distances (b,) of pictures (b, 3, h, w) in [0, 1]; the hw x hw maps exist a few rows at a time."""
        distances = []
        for result, photo in zip(self.features(results), self.features(photos), strict=True):
            total = torch.zeros((), dtype=torch.float64, device=self.device)
            for rows in range(0, len(photo), ROWS):
                wanted = (photo[rows : rows + ROWS] @ photo.T).log_softmax(-1)
                got = (result[rows : rows + ROWS] @ result.T).log_softmax(-1)
                total += (wanted.exp() * (wanted - got)).sum(dtype=torch.float64)
            distances.append(total)
        return torch.stack(distances).float().cpu()


def load_cfsd(
    net: str = "vgg16",
    weights: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
    on_bytes: OnBytes | None = None,
) -> Cfsd:
    """CFSD on VGG-19 as published, or on LPIPS' VGG-16; both share the five layers up to relu3_1."""
    if net not in NETS:
        raise InputError(f"CFSD has no network {net!r}; choose one of {', '.join(NETS)}")
    path = locate("lpips-vgg" if net == "vgg16" else "vgg19", weights, on_bytes)
    if net == "vgg16":
        return Cfsd(net, read_layers(read_arrays(path), "vgg", 5, path), path, device)
    state = read_checkpoint(path)
    try:
        layers = [(state[f"features.{i}.weight"], state[f"features.{i}.bias"]) for i in (0, 2, 5, 7, 10)]
    except KeyError as error:
        raise InputError(f"{path}: no {error.args[0]}; these are not VGG-19's weights") from error
    return Cfsd(net, layers, path, device)


@torch.inference_mode()
def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity (b,) of pictures (b, c, h, w) in [0, 1] (Wang et al. 2004): 11x11 Gaussian
    window, sigma 1.5, population variances, no padding, mean over channels and places.
    """
    if a.shape != b.shape:
        raise InputError(f"SSIM compares pictures of one size, not {tuple(a.shape)} and {tuple(b.shape)}")
    if min(a.shape[-2:]) < 11:
        raise InputError("SSIM needs pictures of at least 11 pixels a side")
    rows, columns = (_window(side).to(a.device) for side in a.shape[-2:])

    def blur(image: Tensor) -> Tensor:
        return rows @ image @ columns.T

    a, b = a.float() - 0.5, b.float() - 0.5  # variances lose less to rounding around zero
    mean_a, mean_b = blur(a), blur(b)
    var_a, var_b = blur(a * a) - mean_a**2, blur(b * b) - mean_b**2
    covariance = blur(a * b) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    mean_a, mean_b = mean_a + 0.5, mean_b + 0.5
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    contrast = (2 * covariance + c2) / (var_a + var_b + c2)
    return (luminance * contrast).mean((1, 2, 3)).float().cpu()


def _window(side: int) -> Tensor:
    """(side - 10, side): the Gaussian window at every place it fits; blurring is two products."""
    weights = torch.exp(-(torch.arange(11, dtype=torch.float64) - 5).square() / (2 * 1.5**2))
    matrix = torch.zeros(side - 10, side, dtype=torch.float64)
    for i in range(11):
        matrix.diagonal(i)[:] = weights[i] / weights.sum()
    return matrix.float()
