"""MobileSAM as a segmenter: objects from clicks and boxes, and all that a grid of clicks finds.

The embedding of a photo costs most of the time and is kept on disk, as inversions are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from ...features.cache import Cache, content_key
from ...files import sha256
from ...weights.checkpoints import load_checked, read_checkpoint
from ...weights.registry import OnBytes, locate
from ..segment import Prompt, Proposal
from .decoder import CORNER, NOT, OTHER_CORNER, SIDE, YES, MaskDecoder, PromptEncoder
from .encoder import ImageEncoder

MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
UNUSED = ("image_encoder.head.", "image_encoder.norm_head.", "prompt_encoder.mask_downscaling.")
STRIDE = 4  # pixels of the square to a cell of a mask
CONTRAST = 4.0  # of a mask; at 1 what the network half suspects would shine through
KIND = "embeddings"  # in the cache

CLICKS = 64  # of the grid that looks for all objects
BATCH = 10  # clicks at a time
SURE = 0.80  # how well a mask is thought to fit, from which on it is proposed
STABLE = 0.85  # how little of a mask may depend on the threshold
SHIFT = 1.0  # of the threshold, for that
SAME = 0.85  # overlap (intersection over union) from which on two masks are one object


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image_encoder = ImageEncoder()
        self.prompt_encoder = PromptEncoder()
        self.mask_decoder = MaskDecoder()


class MobileSam:
    """Segment Anything with MobileSAM's encoder.

    weights: the path of mobile_sam.pt; without one it is looked for among mast's weights, and fetched.
    """

    name = "mobile-sam"

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        on_bytes: OnBytes | None = None,
        cache: Cache | None = None,
    ):
        path = locate(self.name, weights, on_bytes)
        tensors = {key: value for key, value in read_checkpoint(path).items() if not key.startswith(UNUSED)}
        network = load_checked(Network(), tensors, path, "MobileSAM's checkpoint")
        assert isinstance(network, Network)
        self.network = network.eval().requires_grad_(False)
        self.network.image_encoder.fuse()
        self.cache = cache or Cache()
        self._weights = sha256(path)

    # ------------------------------------------------------------ the interface

    def select(self, photo: Image.Image, prompt: Prompt) -> np.ndarray:
        """The object at a prompt, (h, w). One click may mean a thing, a part or a part of a part: of the
        three the mask is taken that is thought to fit best.
        """
        corners = [] if prompt.box is None else [prompt.box[:2], prompt.box[2:]]
        kinds = [YES] * len(prompt.at) + [NOT] * len(prompt.away) + [CORNER, OTHER_CORNER][: len(corners)]
        points = _on_square(torch.tensor([*prompt.at, *prompt.away, *corners]), photo.size)
        logits, scores = self.decode(self.embed(photo), points.unsqueeze(0), torch.tensor([kinds]))
        lonely = len(prompt.at) == 1 and not prompt.away and prompt.box is None
        chosen = 1 + int(scores[0, 1:].argmax()) if lonely else 0
        return probability(logits[0, chosen], photo.size)

    def propose(self, photo: Image.Image) -> list[Proposal]:
        """What is found at the points of a grid, surest first, without doubles."""
        embedding = self.embed(photo)
        width, height = fitted(photo.size)
        found: list[tuple[float, Tensor]] = []
        for points in grid(photo.size, CLICKS).split(BATCH):
            kinds = torch.full((len(points), 1), YES)
            logits, fits = self.decode(embedding, _on_square(points, photo.size).unsqueeze(1), kinds)
            for mask, fit in zip(logits[:, 1:].flatten(0, 1), fits[:, 1:].flatten().tolist(), strict=True):
                part = mask[: -(-height // STRIDE), : -(-width // STRIDE)]
                if fit >= SURE and stability(part) >= STABLE:
                    found.append((fit, mask))
        found.sort(key=lambda pair: -pair[0])
        return [
            Proposal(probability(found[i][1], photo.size), min(1.0, found[i][0]))
            for i in distinct([mask > 0 for _, mask in found], SAME)
        ]

    # ------------------------------------------------------------ the two halves

    @torch.inference_mode()
    def embed(self, photo: Image.Image) -> Tensor:
        """(1, 256, 64, 64) of an RGB photo; from the cache where it is there."""
        square = _square(photo)
        key = content_key(square, weights=self._weights)
        kept = self.cache.read(KIND, key, ("embedding",))
        if kept is not None:
            return kept["embedding"]
        embedding = self.network.image_encoder(square)
        self.cache.write(KIND, key, {"embedding": embedding})
        return embedding

    @torch.inference_mode()
    def decode(self, embedding: Tensor, points: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (b, 4, 256, 256) on the square and how well they fit (b, 4), for points (b, n, 2) of the
        square with their kinds (b, n).
        """
        prompts = self.network.prompt_encoder
        image = (embedding + prompts.no_mask_embed.weight.view(1, -1, 1, 1)).flatten(2).transpose(1, 2)
        return self.network.mask_decoder(image, prompts.grid(), prompts(points, kinds))


# ------------------------------------------------------------ from the photo to the square and back


def fitted(size: tuple[int, int]) -> tuple[int, int]:
    """(w, h) of a photo in the upper left of the square, its longer side as long as the square's."""
    scale = SIDE / max(size)
    return max(1, int(size[0] * scale + 0.5)), max(1, int(size[1] * scale + 0.5))


def _square(photo: Image.Image) -> Tensor:
    """(1, 3, 1024, 1024): normalised, the rest of the square 0."""
    pixels = np.asarray(photo.convert("RGB").resize(fitted(photo.size), Image.Resampling.BILINEAR))
    image = (torch.from_numpy(pixels.copy()) - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    rest = (0, SIDE - image.shape[1], 0, SIDE - image.shape[0])
    return F.pad(image.permute(2, 0, 1), rest).unsqueeze(0)


def _on_square(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Points (..., 2) of the photo as points of the square."""
    return points * (torch.tensor(fitted(size)) / torch.tensor(size))


def enlarge(logits: Tensor, size: tuple[int, int]) -> Tensor:
    """(256, 256) on the square to (h, w) of the photo."""
    width, height = fitted(size)
    whole = F.interpolate(logits[None, None], (SIDE, SIDE), mode="bilinear")
    return F.interpolate(whole[..., :height, :width], size[::-1], mode="bilinear")[0, 0]


def probability(logits: Tensor, size: tuple[int, int]) -> np.ndarray:
    """float32 (h, w): what is likely inside is white and the rest black, with a soft edge between them.

    A little smoothing first: where the network is unsure, the steps of its enlargement show as a lattice.
    """
    smooth = F.avg_pool2d(logits[None, None], 3, 1, 1, count_include_pad=False)[0, 0]
    return (CONTRAST * enlarge(smooth, size)).sigmoid().numpy()


# ------------------------------------------------------------ looking for everything


def grid(size: tuple[int, int], count: int) -> Tensor:
    """About so many points (n, 2), evenly spread over a photo (w, h)."""
    step = (size[0] * size[1] / count) ** 0.5
    xs, ys = (
        (torch.arange(number) + 0.5) * (side / number)
        for side, number in ((side, max(1, round(side / step))) for side in size)
    )
    return torch.cartesian_prod(xs, ys)


def stability(logits: Tensor) -> float:
    """How much of a mask stays when its threshold is raised, against when it is lowered."""
    return float((logits > SHIFT).sum()) / max(1.0, float((logits > -SHIFT).sum()))


def distinct(masks: Sequence[Tensor], same: float) -> list[int]:
    """The indices of bool masks (h, w) whose overlap with every one kept before, of their union, is less."""
    kept: list[int] = []
    for i, mask in enumerate(masks):
        overlaps = (float((mask & masks[j]).sum()) / max(1, int((mask | masks[j]).sum())) for j in kept)
        if all(overlap < same for overlap in overlaps):
            kept.append(i)
    return kept
