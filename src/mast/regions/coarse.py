"""A photo divided by colour and place with nothing but what is always installed: no objects, no fine edges.

`auto.divide` follows the photo's edges, and needs scipy for it. This is for who has not installed that yet.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter

from ..images import COLOUR_TOLERANCE
from ..methods.clustering import k_means
from .auto import BLUR, GRID, PLACE, Divided, at_most, check_count, in_order, whole_levels
from .partition import Found, NamedMasks, named

CALM = 5  # cells to a side over which the regions of neighbours are asked
ROUNDS = 4


def divide_coarsely(photo: Image.Image, n: int) -> Divided:
    """N regions whose masks sum to 1 at every pixel, soft over a cell of the grid where they meet."""
    check_count(n)
    photo = photo.convert("RGB")
    small = at_most(photo.filter(ImageFilter.GaussianBlur(BLUR * max(photo.size))), GRID)
    colours = torch.from_numpy(np.asarray(small.convert("YCbCr"), np.float32).copy()).flatten(0, 1)
    rows, columns = np.mgrid[: small.height, : small.width].astype(np.float32) / max(small.size)
    places = torch.from_numpy(np.stack([columns.ravel(), rows.ravel()], -1))
    points = torch.cat(
        [colours / colours.std(0).norm().clamp_min(COLOUR_TOLERANCE), PLACE * places / places.std(0).norm()],
        1,
    )
    labels = k_means(points, n).reshape(small.height, small.width)
    labels = torch.from_numpy(in_order(calm(labels, n).numpy(), None, n))
    cells = F.one_hot(labels, n).permute(2, 0, 1).float().numpy()
    masks = np.stack(
        [np.asarray(Image.fromarray(cell).resize(photo.size, Image.Resampling.BILINEAR)) for cell in cells]
    )
    names = named([Found("object", mask >= 0.5) for mask in masks[:-1]])
    note = "only colour and place were looked at"
    return Divided(NamedMasks(names, whole_levels(255 * masks / masks.sum(0))), [note])


def calm(labels: torch.Tensor, n: int) -> torch.Tensor:
    """Labels (h, w) of which each is what most around it are; as they were where a region would be lost."""
    for _ in range(ROUNDS):
        votes = F.one_hot(labels, n).permute(2, 0, 1).float()[None]
        around = F.avg_pool2d(votes, CALM, 1, CALM // 2, count_include_pad=False)[0].argmax(0)
        if len(torch.unique(around)) < n:
            break
        labels = around
    return labels
