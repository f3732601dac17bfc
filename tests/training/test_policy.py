"""Runs to train on: they are real ones, the batched control repeats them, and a U-Net learns from them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mast import Mast
from mast.backbone.device import cpu_runs_bfloat16
from mast.backbone.instrument import controlled
from mast.core import ddim, lama
from mast.core.attention import Partition, dense_attention
from mast.metrics.lpips import load_lpips
from tests.training.small import FEW, SMALL, copy_training
from training import decoder, policy, unet
from training import objective as objectives
from training.checkpoint import current_backbone
from training.control import BatchedMast, Watcher, mix
from training.images import list_images
from training.objective import Objective, Weights
from training.perceptual import StyleLoss
from training.policy import Pool, extend, random_masks
from training.run import Run, load


@pytest.mark.parametrize("options", [{}, {"tau": 3.0}, {"sts": False}, {"tau": (0.5, 2.0, 1.5)}])
def test_mixing_is_the_paper_s_joint_attention(options: dict) -> None:
    method, rng = Mast(**options), torch.Generator().manual_seed(0)
    rand = lambda *shape: torch.randn(*shape, generator=rng)
    b, heads, tokens, d = 3, 2, 20, 4
    blended, own = 2 * rand(b, heads, tokens, d), 3 * rand(b, heads, tokens, d)
    others = [(rand(b, heads, tokens, d), rand(b, heads, tokens, d)) for _ in range(3)]
    parts = [(blended, *others[0]), (blended, *others[1]), (own, *others[2])]
    masks = torch.rand(2, b, tokens, generator=rng)
    masks = masks / masks.sum(0) * (torch.rand(b, tokens, generator=rng) > 0.2)
    masses = lama.target_masses(masks.flatten(1), method.pi)
    got = mix(parts, masses.view(3, b, 1, tokens), method).unflatten(0, (b, heads))
    for row in range(b):
        *styles, content = [Partition(*(x[row] for x in part)) for part in parts]
        wanted = dense_attention(styles, content, masses.view(3, b, tokens)[:, row], method.tau_rule)
        torch.testing.assert_close(got[row], wanted.output, atol=1e-5, rtol=1e-4)


def test_the_batched_control_goes_the_way_of_the_run(runs: Path) -> None:
    """From each recorded latent, under the control for batches, one DDIM step leads to the next one."""
    backbone, _ = current_backbone(runs, None)
    schedule = backbone.schedule(FEW)
    alpha = dict(zip(schedule.timesteps, schedule.alphas, strict=True))
    for n in (1, 2):
        run = next(run for run in load(runs / "policy.pt")["runs"] if len(run["masks"]) == n)
        at = [0, 1, 2]
        t = torch.tensor([run["timesteps"][i] for i in at])
        references = torch.cat([run["content"][at], *(style[at] for style in run["references"])]).float()
        watcher, masks = Watcher(), {}
        for cells in (8, 4):
            side = run["masks"].float().unflatten(2, (cells, -1)).unflatten(1, (cells, -1)).mean((2, 4))
            masks[cells**2] = side.flatten(1)[:, None].expand(-1, len(at), -1)
        prompt = backbone.empty_prompt
        with torch.no_grad():
            with controlled(backbone.unet, backbone.sites, watcher):
                backbone.unet(references, t.repeat(1 + n), prompt.expand(len(references), -1, -1))
            with controlled(
                backbone.unet, backbone.sites, BatchedMast(Mast(**run["method"]), watcher, masks)
            ):
                v = backbone.unet(run["stylized"][at].float(), t, prompt.expand(len(at), -1, -1)).sample
        after = [*run["stylized"][1:], run["final"]]
        for row, i in enumerate(at):
            here, to = run["timesteps"][i], [*run["timesteps"][1:], schedule.timesteps[0]][i]
            z = run["stylized"][i : i + 1].float()
            moved, _ = ddim.move(z, v[row : row + 1], alpha[here], alpha[to], "v_prediction")
            change = (moved[0] - z[0]).abs().mean()
            assert (moved[0] - after[i].float()).abs().mean() < 0.02 * change


def test_masks_are_soft_and_tile() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        two = random_masks(2, 64, rng)
        assert two.shape == (2, 64, 64)
        torch.testing.assert_close(two.sum(0), torch.ones(64, 64))
        assert 0.1 < two[0].mean() < 0.9 and ((two > 0.05) & (two < 0.95)).any()
    ones = [random_masks(1, 64, rng) for _ in range(20)]
    assert any(mask.min() == 1 for mask in ones) and any(mask.min() < 0.1 for mask in ones)


def test_a_pool_keeps_the_newest_runs_and_is_read_again(
    runs: Path, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(policy, "STEPS", FEW)
    copy_training(runs, tmp_path)
    pool, rng = Pool(tmp_path / "policy.pt"), np.random.default_rng(0)
    batch = pool.batch(3 * 64**2, rng)
    b, n = batch.masks.shape[:2]
    assert b == 3 and batch.photo.shape == (3, 3, 64, 64) and batch.styles.shape == (3, n, 3, 64, 64)
    assert batch.stylized.shape == (3, 16, 8, 8) and batch.references.shape == (3 * (1 + n), 16, 8, 8)
    assert len(pool.batch(1, rng).t) == 1, "one at least"
    held = load(tmp_path / "policy.pt")["runs"]
    assert sorted(len(group) for group in pool.groups) == [3, 3]
    torch.save({"runs": held[:1]}, tmp_path / "policy.pt")
    pool.refresh()
    assert [len(group) for group in pool.groups] == [1]
    backbone, _ = current_backbone(tmp_path, None)
    listed = [entry for entry in list_images(folder) if entry.path.name != "broken.jpg"]
    assert extend(tmp_path / "policy.pt", backbone, listed, 1, 4, (64,), seed=1) == 4
    assert not torch.equal(load(tmp_path / "policy.pt")["runs"][0]["photo"], held[0]["photo"])


def test_the_loss_of_moments_reaches_the_weights(runs: Path, weights: dict[str, Path]) -> None:
    backbone, _ = current_backbone(runs, None)
    backbone.unet.requires_grad_(True)
    judges = StyleLoss(weights["vgg"]), load_lpips("alex", weights["alex"])
    objective = Objective(backbone.unet, backbone.autoencoder, *judges, Weights(3.0, 1.0, 2.0))
    batch = Pool(runs / "policy.pt").batch(2 * 64**2, np.random.default_rng(0))
    loss, values = objective.policy(batch, np.random.default_rng(0))
    loss.backward()
    assert values.keys() == {"policy", "policy style", "policy content", "policy lpips"}
    gradients = {name: p.grad for name, p in backbone.unet.named_parameters() if p.grad is not None}
    assert all(g.isfinite().all() for g in gradients.values())
    site = backbone.sites[0].attention
    assert gradients[f"{site}.to_q.weight"].abs().max() > 0
    assert f"{site}.to_k.weight" not in gradients, "styles and photos are seen without gradients"
    part = Objective(backbone.unet, backbone.autoencoder, judges[0], None, Weights(0.0, 0.0))
    outside = (1 - batch.masks.sum(1)).abs().max()
    loss, _ = part.policy(batch, np.random.default_rng(0))
    assert (loss > 1e-3) == (outside > 1e-3), "the photo is wanted where no region is"


def test_a_window_shows_what_the_whole_picture_does(runs: Path, monkeypatch) -> None:
    backbone, _ = current_backbone(runs, None)
    objective = Objective(backbone.unet, backbone.autoencoder)
    monkeypatch.setattr(objectives, "MARGIN", 4)
    latent = torch.randn(2, 16, 12, 20, generator=torch.Generator().manual_seed(0))
    whole, rows, columns = objective.decode(latent), slice(0, 7), slice(6, 14)
    part = objective.decode(latent, rows, columns)
    torch.testing.assert_close(part, whole[:, :, :56, 48:112], atol=1e-4, rtol=1e-3)
    rng = np.random.default_rng(0)
    places = {objectives.window(20, rng).start for _ in range(100)}
    assert places == {0, 1, 2, 3, 4}
    assert objectives.window(9, rng) == slice(0, 9)


def test_a_training_takes_moments_of_its_runs(
    runs: Path, images: list[np.ndarray], weights: dict[str, Path], tmp_path: Path
) -> None:
    copy_training(runs, tmp_path)
    options = {"vgg": weights["vgg"], "policy": tmp_path / "policy.pt", "shares": {"policy": 1.0}}
    history = unet.train(images, tmp_path, Run(steps=2), **options, **SMALL)
    assert len(history["policy"]) == 2 and np.isfinite(history["policy"]).all()
    assert load(tmp_path / "unet.pt")["step"] == 12


def test_late_moments_are_drawn_most() -> None:
    rng, timesteps = np.random.default_rng(0), [900, 700, 450, 1]
    drawn = [timesteps[policy.Pool.moment(timesteps, rng)] for _ in range(400)]
    assert set(drawn) == set(timesteps)
    late = sum(t <= policy.LATE for t in drawn) / len(drawn)
    assert late == pytest.approx(policy.MOSTLY + (1 - policy.MOSTLY) / 2, abs=0.05)
    assert policy.Pool.moment([900, 700], rng) in (0, 1), "where none is late, any will do"


def test_a_decoder_is_trained_on_what_runs_leave(
    runs: Path, images: list[np.ndarray], tmp_path: Path
) -> None:
    copy_training(runs, tmp_path)
    latents = decoder.finished_latents(tmp_path, 8)
    assert len(latents) == 6 and latents[0].shape == (16, 8, 8)
    history = decoder.train(images, tmp_path, Run(steps=2), runs=latents, size=64, batch=4)
    assert np.isfinite(history["border"] + history["repetition"]).all()
    if cpu_runs_bfloat16():
        copy_training(runs, tmp_path)
        halved = decoder.train(images, tmp_path, Run(steps=2), runs=latents, size=64, batch=4, half=True)
        for name, values in history.items():
            assert halved[name] == pytest.approx(values, rel=0.05), name
    with pytest.raises(ValueError, match="make larger ones"):
        decoder.finished_latents(tmp_path, 16)
