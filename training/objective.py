"""What a U-Net is trained for: the loss of one batch, in each of the modes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from mast.backbone.instrument import controlled
from mast.backbone.preview.autoencoder import PatchAutoencoder
from mast.backbone.sites import sites_for
from mast.core.masks import area_resample
from mast.metrics.lpips import Lpips
from training.control import BatchedMast, Watcher
from training.diffusion import empty_prompt, levels, predicted_clean, velocity
from training.pairs import MODES, Pairing, arrange
from training.perceptual import Look, StyleLoss, lpips_distance
from training.policy import PolicyBatch
from training.precision import InFull, halved

Losses = tuple[Tensor, dict[str, float]]  # the loss () and what to log of it
WINDOW = 16  # cells of a run's picture that are judged at a time, 128 px: VGG is dearer than the U-Net
LEAST_NOISE = 0.25
MARGIN = 2  # cells around them that are decoded, too: near a border a decoder knows less


@dataclass(frozen=True)
class Weights:
    """How much the parts of a judgement count: VGG statistics of the style, VGG structure of the photo,
    LPIPS to the photo.
    """

    style: float = 3.0
    content: float = 1.0
    lpips: float = 0.0


@dataclass
class Objective:
    """The loss of one batch in one mode. Pictures are judged as the decoder shows them."""

    unet: UNet2DConditionModel
    autoencoder: PatchAutoencoder
    style_loss: StyleLoss | None = None
    lpips: Lpips | None = None
    weights: Weights = Weights()

    def __post_init__(self) -> None:
        self.sites = sites_for(self.unet)

    def predict(self, noisy: Tensor, t: Tensor) -> Tensor:
        """Latents (b, c, h, w), timesteps (b) -> v."""
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        return self.unet(noisy, t, empty_prompt(self.unet, len(noisy))).sample.float()

    def pairs(self, mode: str, image: Tensor, rng: np.random.Generator) -> Losses:
        """Pairs of crops (b, 3, h, w), in one of the MODES: of one picture each, but for `stylize`, where the
        partner is the style.
        """
        with halved(False):  # a blur is a grouped convolution, which takes minutes in bfloat16
            clean, given = arrange(mode, image, self.autoencoder.encode, rng)
        drawn = rng.integers(MODES[mode].lowest, MODES[mode].highest, len(image) // 2)
        t = torch.from_numpy(drawn).repeat_interleave(2)
        signal, noise = levels(t)
        noisy = signal * given + noise * torch.from_numpy(rng.standard_normal(given.shape, dtype=np.float32))
        pairing = Pairing(MODES[mode].lending, float(rng.uniform(0.85, 1)), float(rng.uniform(1, 1.8)))
        with controlled(self.unet, self.sites, InFull(pairing)):
            predicted = self.predict(noisy, t)
        target = velocity(noisy, clean, t)
        if mode != "stylize":
            loss = F.mse_loss(predicted, target)
            return loss, {mode: loss.item()}
        # The partner sees its own keys and values and is plainly denoised; VGG judges the picture.
        partner = F.mse_loss(predicted[1::2], target[1::2])
        shown = self.decode(predicted_clean(noisy, predicted, t)[::2])
        looks = self.judges.look(image)
        judged, values = self.judge(shown, t[::2], image[::2], looks.rows(0), [looks.rows(1)])
        loss = partner + judged
        return loss, {mode: loss.item(), **values}

    def policy(self, batch: PolicyBatch, rng: np.random.Generator) -> Losses:
        """Moments of real runs, under MAST's control. Photos and styles are seen without gradients.

        The U-Net sees whole pictures; one window of each batch's is judged.
        """
        watcher, n = Watcher(), batch.masks.shape[1]
        with torch.no_grad(), controlled(self.unet, self.sites, InFull(watcher)):
            self.predict(batch.references, batch.t.repeat(1 + n))
        latent = (batch.stylized.shape[2], batch.stylized.shape[3])
        masks = {}
        for grid in {site.grid(latent) for site in self.sites}:
            on_grid = area_resample(batch.masks.flatten(0, 1), grid).view(-1, n, grid[0] * grid[1])
            masks[grid[0] * grid[1]] = on_grid.transpose(0, 1).contiguous()
        control = BatchedMast(batch.method, watcher, masks)
        with controlled(self.unet, self.sites, InFull(control)):
            predicted = self.predict(batch.stylized, batch.t)
        shown = predicted_clean(batch.stylized, predicted, batch.t)
        rows, columns, patch = *(window(side, rng) for side in latent), self.autoencoder.patch
        part = tuple(slice(patch * cells.start, patch * cells.stop) for cells in (rows, columns))
        photo, masks_here = (x[:, :, part[0], part[1]] for x in (batch.photo, batch.masks))
        loss, values = self.judge(
            self.decode(shown, rows, columns),
            batch.t,
            photo,
            self.judges.look(photo),
            batch.style_looks(self.judges.look),
            masks_here,
        )
        return loss, {"policy": loss.item(), **{f"policy {name}": value for name, value in values.items()}}

    @property
    def judges(self) -> StyleLoss:
        if self.style_loss is None:
            raise ValueError("this mode is judged by VGG: it needs its weights (--vgg)")
        return self.style_loss

    def decode(self, latent: Tensor, *part: slice) -> Tensor:
        """Clean latents (b, c, h, w), or a part of them by rows and columns -> pictures (b, 3, h', w')."""
        whole = [slice(0, side) for side in latent.shape[2:]]
        inner = part or whole
        outer = [
            slice(max(0, i.start - MARGIN), min(w.stop, i.stop + MARGIN))
            for i, w in zip(inner, whole, strict=True)
        ]
        shown = latent[:, :, outer[0], outer[1]].contiguous(memory_format=torch.channels_last)
        picture = self.autoencoder.decode(shown).clamp(-1.2, 1.2)
        patch = self.autoencoder.patch
        kept = [
            slice(patch * (i.start - o.start), patch * (i.stop - o.start))
            for i, o in zip(inner, outer, strict=True)
        ]
        return picture[:, :, kept[0], kept[1]]

    def judge(
        self,
        picture: Tensor,
        t: Tensor,
        photo: Tensor,
        content: Look,
        styles: Sequence[Look],
        masks: Tensor | None = None,
    ) -> Losses:
        """Pictures (b, 3, h, w) as predicted at t (b), against real pixels: the photo's and the styles'.

        content: the look of the photos (b, 3, h, w); styles and masks as StyleLoss takes them. Where no
        region is, the photo itself is wanted.
        """
        style, structure = self.judges(picture, styles, content, masks)
        total = self.weights.style * style + self.weights.content * structure
        values = {"style": style.mean().item(), "content": structure.mean().item()}
        if self.lpips is not None:
            distance = lpips_distance(self.lpips, picture, photo)
            total = total + self.weights.lpips * distance
            values["lpips"] = distance.mean().item()
        # What is predicted out of much noise is a blur, and judged mildly. Out of little, v moves the picture
        # little: without its due weight nothing would be learnt there, and there texture is made.
        signal, noise = levels(t)
        loss = ((signal / noise.clamp_min(LEAST_NOISE)).flatten() * total).mean()
        if masks is not None:
            outside = (1 - masks.sum(1, keepdim=True)).clamp_min(0)
            loss = loss + (outside * (picture - photo).abs()).mean()
        return loss, values


def window(side: int, rng: np.random.Generator) -> slice:
    """A place for a window in so many cells; all of them where they are fewer."""
    start = int(rng.integers(0, max(0, side - WINDOW) + 1))
    return slice(start, min(side, start + WINDOW))
