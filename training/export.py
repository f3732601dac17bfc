"""Write a training as a model folder: unet/, scheduler/, autoencoder/, prompt, defaults, progress.

    python -m training.export --work DIR --out DIR [--model MODEL_FOLDER] [--share 0.6]

Averaged weights, stored in 16 bit. With --share the U-Net is so much of this training's and for the rest
MODEL_FOLDER's, weight by weight: half-way between where a short training began and where it ended a model
often paints better than at either end (https://arxiv.org/abs/2203.05482). Without WORK/decoder.pt the
autoencoder is that of MODEL_FOLDER. The defaults are MODEL_FOLDER's, or the embedded model's: calibrate tau
anew after a long training.
"""

import argparse
import json
from pathlib import Path

from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from safetensors.torch import save_file

from training.autoencoder import COMPONENTS, trained_autoencoder
from training.checkpoint import averaged_unet, exported_unet, model_defaults
from training.diffusion import SCHEDULE, empty_prompt
from training.run import follow


def export(work: Path, out: Path, model: Path | None = None, share: float = 1.0) -> dict[str, int]:
    """Writes the folder `out` and returns what training.json says: steps and pictures seen.

    share: of this training in the weights of the U-Net; the rest is `model`'s.
    """
    if not 0 <= share <= 1 or (share < 1 and model is None):
        raise ValueError("the share must be from 0 to 1, and less than 1 needs a model folder for the rest")
    if not (work / "unet.pt").exists():
        raise FileNotFoundError(f"there is no {work / 'unet.pt'} to export: train a U-Net first")
    unet, progress = averaged_unet(work)
    if share < 1 and model is not None:
        follow(unet.state_dict(), exported_unet(model).state_dict(), share)
    autoencoder, config = trained_autoencoder(work, model)
    if unet.config["in_channels"] != autoencoder.channels:
        raise ValueError(
            f"the U-Net has {unet.config['in_channels']} latent channels, its decoder {autoencoder.channels}"
        )

    prompt = empty_prompt(unet, 1)
    unet.half().save_pretrained(out / "unet")
    DDIMScheduler(**SCHEDULE).save_pretrained(out / "scheduler")
    (out / "autoencoder").mkdir(parents=True, exist_ok=True)
    # The encoder stays in 32 bit: rounding it would change the latents that the U-Net was trained on.
    weights = {
        name: value.contiguous() if name in COMPONENTS else value.contiguous().half()
        for name, value in autoencoder.state_dict().items()
    }
    save_file(weights, out / "autoencoder" / "patch_autoencoder.safetensors")
    (out / "autoencoder" / "config.json").write_text(json.dumps(config, indent=2))
    save_file({"empty_prompt": prompt}, out / "empty_prompt.safetensors")
    (out / "defaults.json").write_text(json.dumps(model_defaults(model)))
    (out / "training.json").write_text(json.dumps(progress))
    return progress


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.export", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--work", type=Path, required=True, help="the folder of the checkpoints")
    parser.add_argument("--out", type=Path, required=True, help="the model folder to write")
    parser.add_argument(
        "--model", type=Path, help="a model folder whose autoencoder to take when WORK has no decoder.pt"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="of this training in the U-Net; the rest is MODEL's"
    )
    args = parser.parse_args(arguments)
    try:
        progress = export(args.work, args.out, args.model, args.share)
    except (FileNotFoundError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    print(f"{args.out}: step {progress['step']}, {progress['seen']} crops seen")


if __name__ == "__main__":
    main()
