"""Regions found and matched by themselves, after StyleGallery: clusters of diffusion features in the photo
and in the styles, each of the photo's given to the most similar one of all styles.

Features: the up-block output at the finest grid, along the inversion, mostly from its clean end. Clusters:
k-means on their principal components, with as many clusters as the silhouette likes best. Similarity:
cosine of mean diffusion features (weight .25), overlap of enclosing circles (.125), and cosine of DINOv2
features (1) where such a model is installed.

As the authors' code has it (`released`), features come from the passes of a short inversion of its own, and
clusters merge whose mean latents are near: a distance in the units of one autoencoder, Stable Diffusion's, so
that ours leaves it out. Left out of both: depth (a model of its own), and a transformer with random weights
before the cosine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.taps import block_features, tapped
from ..core import ddim
from ..core.masks import area_resample
from .clustering import k_means
from .cocodiff import feature_block
from .method import Reference, Scene
from .semantics import semantic_features

LOOKS = 15  # timesteps whose features are averaged
NEAR_COLOURS = 0.85  # between the mean latents of clusters that become one, as released
COMPONENTS = 60
SAMPLE = 2048  # cells that the silhouette looks at
SMALLEST = 0.01  # a cluster with a smaller share of the picture goes to its neighbours
DIFFUSION, SEMANTIC, PLACE = 0.25, 1.0, 0.125


@dataclass(frozen=True)
class Cluster:
    """One part of a picture: its mask (h, w), mean features, and enclosing circle in shares of the sides."""

    mask: Tensor
    diffusion: Tensor
    semantic: Tensor | None
    centre: Tensor
    radius: float


@torch.inference_mode()
def matched(scene: Scene, most: int = 10, semantic: str = "auto", released: bool = False) -> Scene:
    """A scene whose regions are clusters of the photo, each with the cluster of a style that it is most like.

    A style may serve several regions, or none. The same pictures always give the same scene.
    """
    pictures = [scene.content, *scene.styles]
    look = short_features if released else diffusion_features
    features = [look(scene, picture) for picture in pictures]
    meanings = semantic_features(scene.backbone, [p.trajectory.clean for p in pictures], semantic)
    # What all the pictures have in common says nothing about who belongs to whom.
    every = torch.cat([feature.flatten(1) for feature in features], 1)
    middle, spread = every.mean(1).view(-1, 1, 1), every.std(1).view(-1, 1, 1) + 1e-6
    parts = [
        _parts((feature - middle) / spread, meaning, picture, scene, most, released)
        for feature, meaning, picture in zip(features, meanings, pictures, strict=True)
    ]
    candidates = [(style, part) for style, found in enumerate(parts[1:]) for part in found]
    chosen = [max(candidates, key=lambda pair: similarity(part, pair[1])) for part in parts[0]]
    # Tensors made in inference mode could not take part in an optimisation.
    with torch.inference_mode(False):
        masks = torch.stack([part.mask for part in parts[0]]).clone().float().to(scene.backbone.device)
        grids = {scene.latent, *(site.grid(scene.latent) for site in scene.backbone.sites)}
        styles = [_only(scene, scene.styles[style], part.mask.clone()) for style, part in chosen]
        return replace(scene, styles=styles, masks={grid: area_resample(masks, grid) for grid in grids})


def _only(scene: Scene, style: Reference, mask: Tensor) -> Reference:
    """A style of which only the cells under a mask (h, w) count."""
    keep = {}
    for grid in {site.grid(style.latent) for site in scene.backbone.sites}:
        share = area_resample(mask[None].float(), grid).flatten()
        before = style.keep.get(grid)
        if before is not None:
            share = share * torch.zeros_like(share).index_fill(0, before.cpu(), 1.0)
        kept = (share >= min(0.5, float(share.max()))).nonzero().squeeze(1)
        keep[grid] = kept.to(scene.backbone.device)
    weight = area_resample(mask[None].float(), style.latent)[0].to(scene.backbone.device)
    return replace(style, keep=keep, weight=weight)


def diffusion_features(scene: Scene, reference: Reference) -> Tensor:
    """(c, h, w) on the finest grid of the sites: a mean over timesteps, the clean ones weighing most."""
    steps = len(scene.schedule)
    looks = min(LOOKS, steps)
    block = feature_block(scene.backbone.sites[-1])
    found = []
    for look in range(looks):
        step = look * steps // looks
        point = reference.trajectory.points[step : step + 1]
        found.append(block_features(scene.backbone, point, scene.schedule.timesteps[step], [block])[block])
    return _mostly_clean(found)


def _mostly_clean(looks: list[Tensor]) -> Tensor:
    """The mean of features (c, h, w), of which the first weigh most; on the CPU."""
    weights = [1 / (1 + math.exp(5 * (look / len(looks) - 0.7))) for look in range(len(looks))]
    total = sum((w * seen for w, seen in zip(weights, looks, strict=True)), torch.zeros_like(looks[0]))
    return (total / sum(weights)).cpu()


@dataclass(frozen=True)
class ShortInversion:
    """noise: (1, c, h, w) at the last of its timesteps; features: (c, h, w) of a block, one per pass."""

    noise: Tensor
    features: list[Tensor]


@torch.inference_mode()
def short_inversion(
    scene: Scene, reference: Reference, block: str | None = None, on_pass: Callable[[int], None] | None = None
) -> ShortInversion:
    """The authors' inversion of 15 moves: t = 1, 67, ..., 925 with Stable Diffusion's schedule.

    The U-Net is told the timestep that a move leads to, and the picture's latent is taken for that of
    timestep 0. on_pass is called with the timestep of every pass, and may raise.
    """
    backbone, schedule = scene.backbone, scene.backbone.schedule(LOOKS)
    here = float(ddim.cumulative_alphas(backbone.scheduler.config)[0])
    z, seen = reference.trajectory.clean, list[Tensor]()
    for t, alpha in zip(schedule.timesteps, schedule.alphas, strict=True):
        with tapped(backbone.unet, [block] if block else []) as outputs:
            prediction = backbone.predict(z, t)
        _, noise = ddim.split(z, prediction, alpha, schedule.prediction_type)
        z, here = ddim.carry(z, noise, here, alpha), alpha
        seen += [output[0].float() for output in outputs.values()]
        if on_pass is not None:
            on_pass(t)
    return ShortInversion(z, seen)


def short_features(scene: Scene, reference: Reference) -> Tensor:
    """`diffusion_features` of the passes of the authors' inversion."""
    return _mostly_clean(short_inversion(scene, reference, feature_block(scene.backbone.sites[-1])).features)


def _parts(
    features: Tensor, meaning: Tensor | None, picture: Reference, scene: Scene, most: int, released: bool
) -> list[Cluster]:
    grid = (features.shape[1], features.shape[2])
    keep = picture.keep.get(scene.backbone.sites[-1].grid(picture.latent))
    inside = torch.ones(grid, dtype=torch.bool)
    if keep is not None:  # a style mask: the rest of the painting is not there
        inside = torch.zeros(grid).flatten().index_fill(0, keep.cpu(), 1).view(grid).bool()
    labels = cluster(features[:, inside].T, most)
    if released:
        colours = F.adaptive_avg_pool2d(picture.trajectory.clean[0].cpu(), grid)
        labels = merged(labels, colours[:, inside].T)
    parts = []
    for label in range(int(labels.max()) + 1):
        mask = torch.zeros(grid)
        mask[inside] = (labels == label).float()
        places = mask.nonzero().float()
        shares = (places + 0.5) / torch.tensor(grid)
        centre = shares.mean(0)
        radius = float((shares - centre).norm(dim=1).max())
        semantic = None if meaning is None else _mean(meaning, mask)
        parts.append(Cluster(mask, _mean(features, mask), semantic, centre, radius))
    return parts


def _mean(features: Tensor, mask: Tensor) -> Tensor:
    """Mean over a mask (h, w) of features (c, h', w')."""
    weight = area_resample(mask[None], (features.shape[1], features.shape[2]))
    return (features * weight).sum((1, 2)) / weight.sum()


def similarity(one: Cluster, other: Cluster) -> float:
    """How much two parts belong together."""
    diffusion = float(F.cosine_similarity(one.diffusion, other.diffusion, dim=0))
    place = overlap(float((one.centre - other.centre).norm()), one.radius, other.radius)
    total = DIFFUSION * diffusion + PLACE * place
    if one.semantic is not None and other.semantic is not None:
        total += SEMANTIC * float(F.cosine_similarity(one.semantic, other.semantic, dim=0))
    return total


def overlap(distance: float, one: float, other: float) -> float:
    """Intersection over union of two circles whose centres are a distance apart."""
    small, large = min(one, other), max(one, other)
    if distance >= one + other or small <= 0:
        return 0.0
    if distance <= large - small:
        shared = math.pi * small**2
    else:
        # Each circle gives the segment beyond the chord through the two crossings.
        near = (distance**2 + small**2 - large**2) / (2 * distance)
        far = distance - near
        shared = small**2 * math.acos(near / small) + large**2 * math.acos(far / large)
        shared -= near * math.sqrt(max(small**2 - near**2, 0)) + far * math.sqrt(max(large**2 - far**2, 0))
    return shared / (math.pi * (one**2 + other**2) - shared)


# ------------------------------------------------------------ clusters


def cluster(points: Tensor, most: int = 10) -> Tensor:
    """Labels 0, 1, ... (n,) of points (n, c), with as many clusters, 2 to `most`, as the silhouette likes."""
    points = principal(points)
    best, labels = -math.inf, torch.zeros(len(points), dtype=torch.long)
    for count in range(2, min(most, len(points) - 1) + 1):
        found = k_means(points, count)
        score = silhouette(points, found)
        if score > best:
            best, labels = score, found
    return _without_crumbs(points, labels)


def principal(points: Tensor, components: int = COMPONENTS) -> Tensor:
    """Standardised points (n, c) in the directions in which they differ most, (n, at most components)."""
    points = (points - points.mean(0)) / (points.std(0) + 1e-6)
    _, directions = torch.linalg.eigh((points.T @ points).double() / len(points))
    return points @ directions.flip(1)[:, :components].float()


def silhouette(points: Tensor, labels: Tensor) -> float:
    """How much nearer points are to their own cluster than to the next, from -1 to 1 (Rousseeuw 1987)."""
    every = max(1, -(-len(points) // SAMPLE))
    points, labels = points[::every], labels[::every]
    members = F.one_hot(labels).float()
    sizes = members.sum(0)
    sums = torch.cdist(points, points) @ members
    own = labels.unsqueeze(1)
    inner = sums.gather(1, own).squeeze(1) / (sizes[labels] - 1).clamp_min(1)
    outer = (sums / sizes.clamp_min(1)).masked_fill(members.bool() | (sizes == 0), math.inf).amin(1)
    score = torch.where(
        sizes[labels] > 1, (outer - inner) / torch.maximum(outer, inner).clamp_min(1e-12), 0.0
    )
    return float(score.nan_to_num(0.0).mean())


def _without_crumbs(points: Tensor, labels: Tensor) -> Tensor:
    """Labels whose points all belong to clusters of some size."""
    sizes = torch.bincount(labels)
    large = (sizes >= SMALLEST * len(points)).nonzero().squeeze(1)
    centres = torch.stack([points[labels == label].mean(0) for label in large.tolist()])
    nearest = torch.cdist(points, centres).argmin(1)
    index = torch.full((len(sizes),), -1).index_copy(0, large, torch.arange(len(large)))[labels]
    return torch.where(index >= 0, index, nearest)


def merged(labels: Tensor, colours: Tensor, near: float = NEAR_COLOURS) -> Tensor:
    """Labels (n,) where clusters of near colours are one; colours: (n, c), latents of the points.

    As the authors' code has it: of the clusters before it that a cluster is near to it joins the last, with
    whatever that one has joined.
    """
    count = int(labels.max()) + 1
    means = torch.stack([colours[labels == label].mean(0) for label in range(count)])
    close = torch.cdist(means, means) < near
    into = list(range(count))
    for label in range(count):
        before = [other for other in range(label) if close[other, label]]
        into[label] = into[before[-1]] if before else label
    return torch.unique(torch.tensor(into)[labels], return_inverse=True)[1]
