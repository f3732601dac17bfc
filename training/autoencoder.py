"""Where the autoencoder of a training comes from: its fixed encoder first, and the best decoder there is."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mast.backbone.preview.autoencoder import PatchAutoencoder
from training.run import load, save

CONFIG: dict[str, Any] = {
    "channels": 16,
    "patch": 8,
    "widths": (160, 96, 64, 32),
    "depths": (3, 2, 2, 1),
    "scaling_factor": 1.0,
}
COMPONENTS = (
    "mean",
    "analysis",
    "synthesis",
)  # the encoder: never trained, the same in every file of a training


def encoder_components(
    work: Path, init: Path | None, images: list[np.ndarray], channels: int = CONFIG["channels"]
) -> dict[str, Tensor]:
    """WORK/components.pt, which the first run writes: those of `init`, or new ones fitted to the pictures."""
    path = work / "components.pt"
    if not path.exists():
        if init:
            exported = PatchAutoencoder.from_folder(init / "autoencoder").state_dict()
            save({name: exported[name] for name in COMPONENTS}, path)
        elif found := [name for name in ("unet.pt", "decoder.pt") if (work / name).exists()]:
            # New components would be other latents, and what the checkpoint has learnt would be lost unseen.
            raise FileNotFoundError(f"{path} is missing: {found[0]} is worth nothing without its encoder")
        else:
            save(dict(fit_components(images, channels)), path)
    return load(path)


def fit_components(
    images: list[np.ndarray],
    channels: int,
    patch: int = CONFIG["patch"],
    samples: int = 50_000,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Principal components of random patches: mean (n), analysis (n, c), synthesis (c, n) with n = 3 patch^2.

    They are scaled by the square root of their deviation: coarse ones keep more energy than fine ones, so
    noise hides fine structure first, and the whole latent has unit mean square.
    """
    rng = np.random.default_rng(seed)
    sample = np.empty((samples, patch * patch * 3))
    chosen, places = rng.integers(len(images), size=samples), rng.random((samples, 2))
    for row, number, place in zip(sample, chosen, places, strict=True):
        image = images[number]
        y, x = (int(p * (side - patch + 1)) for p, side in zip(place, image.shape[:2], strict=True))
        row[:] = image[y : y + patch, x : x + patch].reshape(-1) / 127.5 - 1
    mean = sample.mean(0)
    variance, vectors = np.linalg.eigh(np.cov((sample - mean).T))  # ascending
    std = np.sqrt(
        variance[::-1][:channels].clip(1e-8)
    )  # pictures without any fine structure leave nothing to divide by
    vectors = vectors[:, ::-1][:, :channels]
    gain = np.sqrt(std)
    gain *= np.sqrt(((std / gain) ** 2).mean())
    parts = {"mean": mean, "analysis": vectors / gain, "synthesis": (vectors * gain).T}
    return {
        name: torch.tensor(np.ascontiguousarray(part), dtype=torch.float32) for name, part in parts.items()
    }


def new_autoencoder(components: dict[str, Tensor], config: dict[str, Any] = CONFIG) -> PatchAutoencoder:
    """The encoder with an untrained decoder, which is the linear inverse."""
    autoencoder = PatchAutoencoder(**config)
    autoencoder.load_state_dict(components, strict=False)
    return autoencoder


def trained_autoencoder(work: Path, init: Path | None) -> tuple[PatchAutoencoder, dict[str, Any]]:
    """The autoencoder of WORK/decoder.pt (averaged), else of the folder `init`; and its config."""
    if (work / "decoder.pt").exists():
        state = load(work / "decoder.pt")
        config = state.get("config", CONFIG)
        autoencoder = PatchAutoencoder(**config)
        autoencoder.load_state_dict(state["ema"])
    elif init:
        autoencoder = PatchAutoencoder.from_folder(init / "autoencoder")
        config = config_of(autoencoder)
    else:
        raise FileNotFoundError(
            f"there is no {work / 'decoder.pt'}: train a decoder, or name a model folder that has one"
        )
    check_encoder(autoencoder, work)
    return autoencoder.eval().requires_grad_(False), config


def config_of(autoencoder: PatchAutoencoder) -> dict[str, Any]:
    """The arguments that build this autoencoder again."""
    stages = [list(stage) for stage in autoencoder.stages]  # type: ignore[call-overload]
    return {
        "channels": autoencoder.channels,
        "patch": autoencoder.patch,
        "widths": [stage[0].first.in_channels for stage in stages],
        "depths": [len(stage) for stage in stages],
        "scaling_factor": autoencoder.scaling_factor,
    }


def check_encoder(autoencoder: PatchAutoencoder, work: Path) -> None:
    """A U-Net is worth nothing with a decoder of other latents."""
    path = work / "components.pt"
    if path.exists():
        expected, weights = load(path), autoencoder.state_dict()
        if not all(torch.equal(expected[name], weights[name]) for name in COMPONENTS):
            raise ValueError(
                f"this decoder belongs to another encoder than {path}: they were trained on different latents"
            )
