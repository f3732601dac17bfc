"""What is shown in a picture, as DINOv2 sees it (Oquab et al., 2023, https://arxiv.org/abs/2304.07193), where
such a model is on this machine. Nothing is ever downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.backbone import Backbone
from ..job import InputError

KNOWN = ("facebook/dinov2-base", "facebook/dinov2-small", "facebook/dinov2-large")
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LONGEST = 37  # patches along the longer side: DINOv2's own 518 pixels at 14 a patch


def semantic_features(
    backbone: Backbone, latents: Sequence[Tensor], model: str = "auto"
) -> list[Tensor | None]:
    """Of each clean latent (1, c, h, w) the features (c', h', w') of its picture, or None without a model.

    model: "auto" for whatever the local cache holds, "none", or the folder of a model, which must be there.
    """
    network = find(model)
    if network is None:
        return [None] * len(latents)
    return [_look(network, backbone.decode(latent).cpu()) for latent in latents]


def find(model: str) -> Any | None:
    """The model, or None; a named one that cannot be read is refused."""
    if model == "none":
        return None
    try:
        from transformers import AutoModel
    except ImportError as error:
        if model == "auto":
            return None
        raise InputError("semantic features need transformers; pip install 'mast[text]'") from error
    for name in KNOWN if model == "auto" else (model,):
        try:
            network = AutoModel.from_pretrained(name, local_files_only=True)
        except Exception as error:
            if model != "auto":
                raise InputError(
                    f"{model}: no DINOv2 model can be read there ({type(error).__name__}); give a folder "
                    "with its config.json and weights, or semantic=none"
                ) from error
            continue
        if not hasattr(network.config, "patch_size"):
            raise InputError(f"{model}: {type(network).__name__} has no patches; give a DINOv2 model")
        return network.float().eval().requires_grad_(False)
    return None


def is_here() -> bool:
    """Whether "auto" would find a model; none is loaded for that."""
    if find_spec("transformers") is None:
        return False
    from huggingface_hub import try_to_load_from_cache

    return any(isinstance(try_to_load_from_cache(name, "config.json"), str) for name in KNOWN)


@torch.inference_mode()
def _look(network: Any, image: Tensor) -> Tensor:
    """(c, h, w) of an image (1, 3, H, W) in [-1, 1]."""
    patch = int(network.config.patch_size)
    scale = LONGEST / max(image.shape[-2:])
    rows, columns = (max(1, round(side * scale)) for side in image.shape[-2:])
    image = F.interpolate(image.clamp(-1, 1), (rows * patch, columns * patch), mode="bicubic", antialias=True)
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    tokens = network(pixel_values=((image + 1) / 2 - mean) / deviation).last_hidden_state[0]
    return tokens[-rows * columns :].T.reshape(-1, rows, columns)
