"""How alike a part of a photo and a painting are: how much of the part would survive in the painting's style.

Five things are compared. Light, contrast, colour and texture are what a painter would look at; the fifth is
whether the model finds its way in the painting. MAST lets every place of a region attend to the painting's
places, so for each of them the most similar place of the painting is looked for, among the keys of the
controlled sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import controlled
from ..core.ddim import cumulative_alphas
from ..core.masks import area_resample
from ..features.recording import Recorder
from ..images import to_tensor, work_size

SIDE = 256  # pixels of the longer side at which pictures are compared
EARLY = 0.02  # of the model's training timesteps: hardly any noise belongs to a picture there
OCTAVES = 5  # of the texture, from the finest
FLOOR = 0.004  # of the full range: texture below one 8-bit level is none
RIM = 3  # pixels from a region's edge that do not count: they show the neighbour
# What counts as a difference of 1. Of 24 pairs of bundled styles, painted both ways, light says best which
# way keeps the photo's light and dark; texture and contrast say which keeps its edges.
USUAL = {"light": 0.15, "contrast": 0.08, "colour": 0.12, "texture": 0.4, "model": 0.02}


@dataclass(frozen=True)
class Seen:
    """A picture as it is compared, at (h, w): pixels (3, h, w), its light and two differences of colour, from
    0 to 1; keys with the grid (h, w) of their site, (d, h * w), centred and of length 1.
    """

    pixels: Tensor
    keys: tuple[tuple[tuple[int, int], Tensor], ...]

    def look(self, mask: Tensor | None = None) -> dict[str, Tensor]:
        """A few numbers for light, contrast, colour and texture of the picture, or of a part (H, W) of it."""
        shape = (self.pixels.shape[1], self.pixels.shape[2])
        weight = torch.ones(shape) if mask is None else _inside(area_resample(mask[None], shape)[0])
        weight = weight / weight.sum()
        mean = (self.pixels * weight).sum((1, 2))
        light, *colours = self.pixels
        chroma = torch.hypot(*(colour - 0.5 for colour in colours))
        return {
            "light": mean[:1],
            "contrast": ((light - mean[0]).square() * weight).sum().sqrt()[None],
            "colour": torch.cat([mean[1:], (chroma * weight).sum()[None]]),
            "texture": (_octaves(light, weight) + FLOOR).log() / OCTAVES**0.5,
        }


def _inside(mask: Tensor) -> Tensor:
    """A mask (h, w) without its rim; of one that is all rim, the mask."""
    side = 2 * RIM + 1
    inner = -F.max_pool2d(-F.pad(mask[None, None], (RIM,) * 4, mode="replicate"), side, 1)[0, 0]
    return inner if float(inner.sum()) >= 1 else mask


@torch.inference_mode()
def see(picture: Image.Image, backbone: Backbone) -> Seen:
    """An RGB picture as it is compared."""
    size, canvas = work_size(*picture.size, SIDE, backbone.stride, "resize")
    image = to_tensor(picture, size, canvas)
    colours = picture.convert("YCbCr").resize(size, Image.Resampling.LANCZOS)
    pixels = torch.from_numpy(np.asarray(colours, np.float32) / 255).permute(2, 0, 1)
    return Seen(pixels, _keys(image, backbone))


def _octaves(light: Tensor, weight: Tensor) -> Tensor:
    """(OCTAVES,): how much each blur takes from (h, w), every one twice as wide as the one before. Where
    there is no weight nothing is looked at, so that a region's outline is no texture.
    """
    found, before = [], light
    for k in range(OCTAVES):
        side = 2 ** (k + 1) + 1
        sums = F.avg_pool2d(torch.stack([before * weight, weight])[None], side, 1, side // 2)[0]
        after = sums[0] / sums[1].clamp_min(1e-12)
        found.append(((before - after).square() * weight).sum().sqrt())
        before = after
    return torch.stack(found)


def _keys(image: Tensor, backbone: Backbone) -> tuple[tuple[tuple[int, int], Tensor], ...]:
    """The keys of every controlled site for a picture (1, 3, h, w) in [-1, 1]: without its average, which is
    what AdaIN exchanges, so that places are compared and not pictures.
    """
    config = backbone.scheduler.config
    t = int(EARLY * config.num_train_timesteps)
    latent = backbone.encode(image)
    recorder = Recorder(backbone.sites, {"key"}, torch.float32, stop=True)
    with controlled(backbone.unet, backbone.sites, recorder):
        backbone.visit(float(cumulative_alphas(config)[t]) ** 0.5 * latent, t)
    seen, found, size = recorder.take(), [], (latent.shape[-2], latent.shape[-1])
    for site in backbone.sites:
        keys = seen[f"{site.index}.key"].transpose(1, 2).flatten(0, 1)  # (heads * d, tokens)
        found.append((site.grid(size), F.normalize(keys - keys.mean(1, keepdim=True), dim=0)))
    return tuple(found)


@dataclass(frozen=True)
class Comparison:
    """unlike: by the names of USUAL, a table (regions, styles): how unlike each painting each region is; for
    the model, against how unlike the whole photo is. parts, paintings: what each looks like (`Seen.look`).
    """

    unlike: dict[str, np.ndarray]
    parts: list[dict[str, Tensor]]
    paintings: list[dict[str, Tensor]]

    @property
    def costs(self) -> np.ndarray:
        """(regions, styles): all of it together."""
        return np.sum(list(self.unlike.values()), 0)


def compare(photo: Seen, masks: Tensor, styles: Sequence[Seen]) -> Comparison:
    """Every region (n, H, W) with every painting, each pair for itself.

    Differences are squared, so that their sum over a matching is least where what is more in one region than
    in the others is more in its painting too, however much all paintings differ from all photos.
    """
    parts, paintings = [photo.look(mask) for mask in masks], [style.look() for style in styles]
    unlike = {
        name: np.array(
            [
                [float((part[name] - one[name]).square().sum()) / unit**2 for one in paintings]
                for part in parts
            ]
        )
        for name, unit in USUAL.items()
        if name != "model"
    }
    unlike["model"] = np.stack([_lost(photo, masks, style) for style in styles], 1) / USUAL["model"]
    return Comparison(unlike, parts, paintings)


def _lost(photo: Seen, masks: Tensor, style: Seen) -> np.ndarray:
    """(regions,): one minus the cosine to the most similar key of the painting, on average over a region, and
    less than over the photo: paintings that are hard to find anything in are so for all regions.
    """
    found = np.zeros(len(masks))
    for (grid, own), (_, other) in zip(photo.keys, style.keys, strict=True):
        far = 1 - (own.T @ other).amax(1)
        weight = area_resample(masks, grid).flatten(1)
        found += ((weight @ far) / weight.sum(1).clamp_min(1e-6) - far.mean()).numpy()
    return found / len(photo.keys)
