"""The frozen model: images to latents and back, and one prediction of the U-Net."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.ddim import PREDICTION_TYPES, Schedule, cumulative_alphas, make_schedule
from ..core.windows import Windows
from ..job import InputError, NotFinite
from .instrument import StopForward, exclusive
from .sites import Site, sites_for
from .tiles import decoded_blended, decoded_exactly, encoded_blended


class Autoencoder(Protocol):
    """encode: image (b, 3, h, w) in [-1, 1] -> scaled latent (b, c, h/8, w/8); decode: back.

    reach: how many cells around it a decoded cell depends on; None for all of them.
    """

    @property
    def reach(self) -> int | None: ...
    def encode(self, image: Tensor) -> Tensor: ...
    def decode(self, latent: Tensor) -> Tensor: ...
    def state_dict(self) -> Mapping[str, Tensor]: ...


class KLAutoencoder(nn.Module):
    """A diffusers AutoencoderKL. Its latent is the posterior *mean*, scaled: nothing is drawn at random."""

    reach = None  # its group norms and its attention see the whole picture

    def __init__(self, vae: Any):
        super().__init__()
        self.vae = vae
        self.scaling_factor = float(vae.config.scaling_factor)

    def encode(self, image: Tensor) -> Tensor:
        return self.vae.encode(image).latent_dist.mean * self.scaling_factor

    def decode(self, latent: Tensor) -> Tensor:
        return self.vae.decode(latent / self.scaling_factor).sample


# Models whose sharpness the paper's coefficients describe (Eq. 36): hub ids, and what their files are called.
PAPER_MODELS = {
    "stable-diffusion-v1-4",
    "stable-diffusion-v1-5",
    "sd-v1-4",
    "sd-v1-4-full-ema",
    "v1-5-pruned",
    "v1-5-pruned-emaonly",
}
TILE = 128  # cells a side that are decoded at once where that gives the same picture
SD_CELLS = 64  # the side of the latents that Stable Diffusion 1.x was trained on


@dataclass
class Backbone:
    """A U-Net, its autoencoder, its noise schedule and its embedding of the empty prompt, on one device.

    scheduler: anything with a diffusers scheduler's `config`.
    defaults: settings and method options this model works best with, where they differ from the paper's.
    Threads may share one: a U-Net's passes, and all that happens under a control, come one after another.
    """

    name: str
    unet: Any
    autoencoder: Autoencoder
    scheduler: Any
    empty_prompt: Tensor
    defaults: dict[str, Any] = field(default_factory=dict)
    trusted: bool = False
    compiled: bool = False

    def compile(self, backend: str = "inductor") -> Backbone:
        """torch.compile for every block that no control reaches: all but the last two of the decoder.

        Those are left alone because a control comes and goes there with every pass. Bits differ a little
        from the plain model's, so runs record it, and their inversions are kept apart.
        """
        with exclusive(self.unet):
            if not self.compiled:
                for block in (*self.unet.down_blocks, self.unet.mid_block, *self.unet.up_blocks[:2]):
                    block.compile(backend=backend)
                self.compiled = True
        return self

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        return sites_for(self.unet)

    @property
    def device(self) -> torch.device:
        return self.empty_prompt.device

    @property
    def dtype(self) -> torch.dtype:
        return self.empty_prompt.dtype

    @cached_property
    def autoencoder_dtype(self) -> torch.dtype:
        """What the autoencoder computes in: not always the U-Net's, see `device.autoencoder_dtype`."""
        return next(iter(self.autoencoder.state_dict().values())).dtype

    @property
    def native_size(self) -> int:
        """Pixels along the longer side that the model is at home with, as `Settings.size` counts them.

        That is `size` of its defaults, else what its U-Net was trained on: 512 for SD 1.x, 768 for SD 2.1.
        """
        if "size" in self.defaults:
            return int(self.defaults["size"])
        cells = self.unet.config.get("sample_size") or SD_CELLS
        return self.latent_stride * (cells if isinstance(cells, int) else max(cells))

    @property
    def calibrated(self) -> bool:
        """Whether the sharpness coefficients tau were fitted for this model.

        They were if its defaults bring their own, as `mast analyze calibrate` writes them, or if it goes by a
        name of SD 1.4, which the paper fitted them on, or of 1.5, which is 1.4 trained for longer. Any other
        model may look too soft or too harsh with the paper's.
        """
        own = self.defaults.get("mast", {}).get("tau") is not None
        last = self.name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].lower()
        return own or last.removesuffix(".safetensors").removesuffix(".ckpt") in PAPER_MODELS

    @property
    def has_text(self) -> bool:
        """Whether it was trained with prompts; one that was not, as the embedded model, is shown zeros."""
        return bool(self.empty_prompt.any())

    @cached_property
    def stride(self) -> int:
        """Picture sides must be multiples of this: a latent cell, halved by all U-Net levels but one."""
        return self.latent_stride * 2 ** (len(self.unet.config.block_out_channels) - 1)

    @cached_property
    def latent_stride(self) -> int:
        """Pixels per latent cell along each side."""
        vae = getattr(self.autoencoder, "vae", None)
        if vae is not None:
            return 2 ** (len(vae.config.block_out_channels) - 1)
        return int(self.autoencoder.patch)  # type: ignore[attr-defined]

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over configs and weights, 16 hex digits. Two models that share it make the same pictures."""
        digest = hashlib.sha256()
        vae = getattr(self.autoencoder, "vae", None)
        scale = getattr(self.autoencoder, "scaling_factor", None)
        own = vae.config if vae is not None else {"scaling_factor": scale}
        for config in (self.unet.config, self.scheduler.config, own):
            plain = {k: v for k, v in sorted(dict(config).items()) if not k.startswith("_")}
            digest.update(json.dumps(plain, sort_keys=True, default=str).encode())
        parts = {"unet": self.unet.state_dict(), "autoencoder": self.autoencoder.state_dict()}
        for part, weights in parts.items():
            for key, value in sorted(weights.items()):
                digest.update(f"{part}.{key}{tuple(value.shape)}{value.dtype}".encode())
                digest.update(value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().data)
        digest.update(self.empty_prompt.detach().float().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def schedule(self, steps: int, clean_end: bool = False) -> Schedule:
        return make_schedule(self.scheduler.config, steps, clean_end)

    @torch.inference_mode()
    def encode(self, image: Tensor, windows: Windows | None = None) -> Tensor:
        """Image (b, 3, h, w) in [-1, 1] -> latent (b, c, h/8, w/8), float32.

        windows: on the latent, where the picture is too large to be encoded at once; see tiles.py.
        """
        given, encode = image.to(self.device, self.autoencoder_dtype), self.autoencoder.encode
        if windows is None or self.autoencoder.reach is not None:
            latent = encode(given).float()
        else:
            latent = encoded_blended(encode, given, windows, self.latent_stride).float()
        return self._finite(latent, image, "the latent of a picture", self.autoencoder_dtype)

    @torch.inference_mode()
    def decode(self, latent: Tensor, windows: Windows | None = None) -> Tensor:
        """Latent (b, c, h, w) -> image (b, 3, 8h, 8w), nominally in [-1, 1], float32; windows: as above."""
        given, decode = latent.to(self.device, self.autoencoder_dtype), self.autoencoder.decode
        reach, stride = self.autoencoder.reach, self.latent_stride
        if reach is not None:
            image = decoded_exactly(decode, given, TILE, reach, stride).float()
        elif windows is not None:
            image = decoded_blended(decode, given, windows, stride).float()
        else:
            image = decode(given).float()
        return self._finite(image, latent, "the decoded picture", self.autoencoder_dtype)

    def predict(self, latent: Tensor, t: int, prompt: Tensor | None = None) -> Tensor:
        """One U-Net pass; latent (b, c, h, w) -> prediction (b, c, h, w), float32.

        prompt: the embedding of another prompt than the empty one, (1 or b, tokens, channels).
        A thread waits here while another has the U-Net. Raises NotFinite rather than hand on NaN or infinity.
        """
        given = latent.to(self.device, self.dtype)
        if self.device.type == "cpu":
            given = given.contiguous(memory_format=torch.channels_last)
        prompt = self.empty_prompt if prompt is None else prompt.to(self.device, self.dtype)
        prompt = prompt.expand(given.shape[0], -1, -1)
        with exclusive(self.unet):
            prediction = self.unet(given, t, encoder_hidden_states=prompt, return_dict=False)[0].float()
        return self._finite(prediction, latent, f"the prediction at timestep {t}", self.dtype)

    def visit(self, latent: Tensor, t: int) -> None:
        """A pass whose prediction nobody needs: it ends as soon as the control in force says so."""
        self._finite(latent, latent, f"the latent at timestep {t}", self.dtype)
        try:
            self.predict(latent, t)
        except StopForward:
            pass

    def _finite(self, made: Tensor, given: Tensor, what: str, dtype: torch.dtype) -> Tensor:
        """`made`, unless there is NaN or infinity in it; `given` tells whether it came in already."""
        if made.isfinite().all():
            return made
        if made is not given and not given.isfinite().all():
            what = f"what was given for {what}"
        way_out = (
            "try --dtype float32"
            if dtype != torch.float32
            else "that is no lack of precision: look at the method's options, or fetch the model again"
        )
        kind = str(dtype).removeprefix("torch.")
        raise NotFinite(f"{self.name}: {what} holds NaN or infinity, computed in {kind}; {way_out}")

    @torch.inference_mode()
    def check_prediction_type(self, latent: Tensor) -> None:
        """Refuses a scheduler config that contradicts the weights, which would otherwise give blur or noise.

        One pass on a known mixture of the latent (1, c, h, w) and noise: the target that a trained U-Net
        hits tells what it predicts. A U-Net that hits none (an untrained one) cannot be judged and passes.
        """
        if self.trusted:
            return
        config = self.scheduler.config
        t = config.num_train_timesteps // 2
        alpha = float(cumulative_alphas(config)[t])
        # Fine detail is what a U-Net predicts worst, whatever it predicts: ask it about a smooth picture.
        latent = F.interpolate(F.avg_pool2d(latent, 4, ceil_mode=True), latent.shape[-2:], mode="bilinear")
        noise = torch.randn(latent.shape, generator=torch.Generator().manual_seed(0)).to(latent.device)
        prediction = self.predict(alpha**0.5 * latent + (1 - alpha) ** 0.5 * noise, t)
        targets = {
            "epsilon": noise,
            "v_prediction": alpha**0.5 * noise - (1 - alpha) ** 0.5 * latent,
            "sample": latent,
        }
        error = {
            name: float((prediction - target).pow(2).mean() / target.pow(2).mean())
            for name, target in targets.items()
        }
        best = min(PREDICTION_TYPES, key=error.__getitem__)
        stated = config.get("prediction_type", "epsilon")
        if best != stated and error[best] < 0.6 and error[best] < 0.7 * error[stated]:
            raise InputError(
                f"{self.name}: its scheduler config says prediction_type={stated}, but the weights "
                f"predict {best} "
                f"(error {error[best]:.2f} against {error[stated]:.2f}); load it with --prediction-type "
                f"{best}"
            )
        self.trusted = True
