"""The empty prompt's embedding: the one thing of a text encoder that mast needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from ..job import InputError
from .configs import WIDEST, read_text_encoder, read_tokens
from .parts import filled, first_line, read_tensors, read_weights
from .rules import Config

STORED = "empty_prompt.safetensors"
MOST_TOKENS = 4096
STEMS = ("model", "pytorch_model")  # what a text encoder's weights are called


def stored_prompt(path: Path) -> Tensor:
    """A stored embedding of the empty prompt, (1, tokens, channels)."""
    prompt = read_tensors(path).get("empty_prompt")
    if prompt is None:
        raise InputError(f"{path}: no stored empty prompt; its tensor must be called empty_prompt")
    shape = tuple(prompt.shape)
    fits = len(shape) == 3 and shape[0] == 1 and 1 <= shape[1] <= MOST_TOKENS and 1 <= shape[2] <= WIDEST
    if not fits or not prompt.is_floating_point():
        raise InputError(
            f"{path}: empty_prompt is {prompt.dtype} of shape {shape}; it must be floating-point numbers of "
            f"shape (1, tokens, channels), at most {MOST_TOKENS} tokens"
        )
    prompt = prompt.to(torch.float32, copy=True)
    if not prompt.isfinite().all():
        raise InputError(f"{path}: empty_prompt holds NaN or infinity; make it again")
    return prompt


def prompt_of_folder(folder: Path) -> Tensor:
    """The text encoder's answer to "", (1, tokens, channels); from a stored file where there is one."""
    if (folder / STORED).exists():
        return stored_prompt(folder / STORED)
    part, tokenizer = folder / "text_encoder", folder / "tokenizer"
    if not (part / "config.json").exists():
        raise InputError(
            f"{folder}: neither text_encoder/ nor {STORED} in this folder; the U-Net needs one of them"
        )
    if not tokenizer.is_dir():
        raise InputError(f"{folder}: no tokenizer/ in this folder; the text encoder needs it")
    config = read_text_encoder(part / "config.json")
    tokens = read_tokens(tokenizer, config)
    return answer(config, tokens, read_weights(part, STEMS), part)


def answer(config: Config, tokens: Sequence[int], tensors: Mapping[str, Tensor], source: Path) -> Tensor:
    """What a CLIP text encoder with these weights says to the tokens, (1, tokens, channels)."""
    if find_spec("transformers") is None:
        raise InputError(
            f"{source}: its text encoder needs transformers: pip install 'mast[text]' "
            f"(or put the embedding of the empty prompt beside it as {STORED})"
        )
    from transformers import CLIPTextConfig, CLIPTextModel

    known = CLIPTextConfig(**config, bos_token_id=tokens[0], eos_token_id=tokens[1])
    with torch.device("meta"):
        nested = any(name.startswith("text_model.") for name in CLIPTextModel(known).state_dict())
    own = {
        ("text_model." if nested else "") + name.removeprefix("text_model."): value
        for name, value in tensors.items()
        # Neither is used: places are counted below, and the projection is for comparing texts with pictures.
        if not name.endswith("position_ids") and name != "text_projection.weight"
    }
    encoder = filled(lambda: CLIPTextModel(known), own, source, "a CLIP text encoder of its config").eval()
    places = torch.arange(len(tokens))[None]
    try:
        with torch.no_grad():
            return encoder(torch.tensor([tokens]), position_ids=places).last_hidden_state
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputError(f"{source}: the text encoder cannot be used ({first_line(error)})") from error
