"""The critic: it learns what tells pictures from paintings, looks where regions are, and outlives a stop."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.small import SMALL, TINY, copy_training
from training import objective as objectives
from training import unet
from training.critic import Critic
from training.objective import Weights
from training.perceptual import StyleLoss
from training.run import Run, load


def pictures(seed: int, soft: bool, count: int = 4) -> torch.Tensor:
    """(count, 3, 64, 64): noise, or noise in cells of 8 px."""
    rng = torch.Generator().manual_seed(seed)
    side = 8 if soft else 64
    image = torch.rand(count, 3, side, side, generator=rng) * 2 - 1
    return image.repeat_interleave(64 // side, 2).repeat_interleave(64 // side, 3)


@pytest.fixture
def taught(weights: dict[str, Path]) -> tuple[StyleLoss, Critic]:
    """A critic that has seen soft pictures and crisp paintings."""
    torch.manual_seed(0)
    judge = StyleLoss(weights["vgg"])
    critic = Critic(judge.channels)
    for seed in range(40):
        critic.learn(judge.features(pictures(seed, True)), judge.features(pictures(seed, False)), None)
    return judge, critic


def test_it_tells_them_apart_and_says_so_with_gradients(taught: tuple[StyleLoss, Critic]) -> None:
    judge, critic = taught
    soft, crisp = (judge.features(pictures(99, kind)) for kind in (True, False))
    assert (critic(crisp, None) + 0.5 < critic(soft, None)).all()
    image = pictures(99, True).requires_grad_()
    critic(judge.features(image), None).sum().backward()
    assert image.grad is not None and image.grad.abs().max() > 0
    assert all(p.requires_grad for p in critic.heads.parameters())
    moved = judge.features(image.detach() - 2 * image.grad / image.grad.abs().amax())
    assert critic(moved, None).mean() < critic(soft, None).mean(), "down the gradient is towards paintings"


def test_it_looks_where_regions_are(taught: tuple[StyleLoss, Critic]) -> None:
    judge, critic = taught
    left = torch.zeros(4, 64, 64)
    left[..., :32] = 1
    half = torch.where(left[:, None] > 0, pictures(99, True), pictures(99, False))
    maps = judge.features(half)
    assert (critic(maps, left) > critic(maps, 1 - left) + 0.3).all()


def test_its_memory_survives_a_stop(
    images: list[np.ndarray], weights: dict[str, Path], runs: Path, tmp_path: Path, monkeypatch
) -> None:
    """Judged in both modes at every timestep, saved with the U-Net, and taken up again."""
    monkeypatch.setattr(objectives, "LATEST", 1000)
    copy_training(runs, tmp_path)
    given = {"vgg": weights["vgg"], "policy": tmp_path / "policy.pt", "weights": Weights(critic=0.5)}
    for mode, names in (("stylize", ("told apart", "unlike")), ("policy", ("policy told apart",))):
        history = unet.train(
            images, tmp_path, Run(steps=2), **given, shares={mode: 1.0}, config=TINY, **SMALL
        )
        for name in names:
            assert np.isfinite(history[name]).all() and len(history[name]) >= 1
    kept = load(tmp_path / "unet.pt")["critic"]
    steps = {int(state["step"]) for state in kept["optimizer"]["state"].values()}
    assert max(steps) >= 3, "the second training went on with the critic of the first"
    unet.train(images, tmp_path, Run(steps=1), vgg=weights["vgg"], shares={"self": 1.0}, config=TINY, **SMALL)
    assert "critic" in load(tmp_path / "unet.pt"), "a run without it does not lose it"
