"""The small files of a model folder: read with a limit, checked key by key, or refused by the file's name.

Every config that mast reads passes here. Of each key it is written down what it may be, so that a wrong type,
an absurd number or an option that Stable Diffusion 1.x and 2.x do not have is an InputError before anything
is built, and never a wrong picture. Keys that are not listed have no effect on what mast computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.ddim import PREDICTION_TYPES
from ..files import read_json
from ..job import InputError
from .rules import Config, Rule, brief, check, either, fixed, flag, listed, number, whole
from .sites import check_layout

CONFIG_BYTES = 1 << 20
VOCABULARY_BYTES = 32 << 20
WIDEST = 16384  # channels; Stable Diffusion's widest map has 2,560


def read_object(path: Path, limit: int = CONFIG_BYTES) -> dict[str, Any]:
    """A JSON object of at most `limit` bytes, whatever is in it."""
    content = read_json(path, "model's config", limit)
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds {brief(content)}, not settings by name; fetch the model again")
    return content


UNET_LEVELS = 4
UNET = {
    "sample_size": either(fixed(None), whole(None, 1, 1024), listed(None, whole(None, 1, 1024), 2, 2)),
    "in_channels": whole(4, 1, 1024),
    "out_channels": whole(4, 1, 1024),
    "block_out_channels": listed([320, 640, 1280, 1280], whole(None, 1, WIDEST), UNET_LEVELS, UNET_LEVELS),
    "cross_attention_dim": whole(1280, 1, WIDEST),
    # Despite its name the number of heads: a mistake of old that every published config keeps.
    "attention_head_dim": either(
        whole(8, 1, WIDEST), listed(None, whole(None, 1, WIDEST), UNET_LEVELS, UNET_LEVELS)
    ),
    "norm_num_groups": whole(32, 1, WIDEST),
    "norm_eps": number(1e-5, 1e-12, 0.1),
    "use_linear_projection": flag(False),
    "upcast_attention": either(flag(False), fixed(None)),
    "dropout": number(0.0, 0, 1),
    "time_embedding_dim": either(fixed(None), whole(None, 1, WIDEST)),
    "time_cond_proj_dim": either(fixed(None), whole(None, 1, WIDEST)),
    "addition_embed_type_num_heads": whole(64, 1, WIDEST),
    "layers_per_block": fixed(2),
    "transformer_layers_per_block": fixed(1),
    "down_block_types": listed(
        ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
        fixed("CrossAttnDownBlock2D", "DownBlock2D"),
        UNET_LEVELS,
        UNET_LEVELS,
    ),
    "mid_block_type": fixed("UNetMidBlock2DCrossAttn"),
    "up_block_types": listed(
        ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
        fixed("UpBlock2D", "CrossAttnUpBlock2D"),
        UNET_LEVELS,
        UNET_LEVELS,
    ),
    "act_fn": fixed("silu", "swish"),
    "attention_type": fixed("default"),
    "center_input_sample": fixed(False),
    "class_embeddings_concat": fixed(False),
    "conv_in_kernel": fixed(3),
    "conv_out_kernel": fixed(3),
    "downsample_padding": fixed(1),
    "dual_cross_attention": fixed(False),
    "flip_sin_to_cos": fixed(True),
    "freq_shift": fixed(0),
    "mid_block_only_cross_attention": fixed(None, False),
    "mid_block_scale_factor": fixed(1),
    "only_cross_attention": fixed(False),
    "resnet_out_scale_factor": fixed(1.0),
    "resnet_skip_time_act": fixed(False),
    "resnet_time_scale_shift": fixed("default"),
    "time_embedding_type": fixed("positional"),
} | {
    key: fixed(None)
    for key in (
        "addition_embed_type",
        "addition_time_embed_dim",
        "class_embed_type",
        "cross_attention_norm",
        "encoder_hid_dim",
        "encoder_hid_dim_type",
        "num_attention_heads",
        "num_class_embeds",
        "projection_class_embeddings_input_dim",
        "reverse_transformer_layers_per_block",
        "time_embedding_act_fn",
        "timestep_post_act",
    )
}


def read_unet(path: Path) -> Config:
    """unet/config.json of Stable Diffusion 1.x or 2.x; another layout is refused by its name."""
    return check_unet(path, read_object(path))


def check_unet(path: Path, given: Mapping[str, Any]) -> Config:
    kind = given.get("_class_name", "UNet2DConditionModel")
    if kind != "UNet2DConditionModel":
        raise InputError(
            f"{path}: {brief(kind)} is not a U-Net mast knows; it works with UNet2DConditionModel of Stable "
            "Diffusion 1.x and 2.x"
        )
    check_layout(str(path), given.get("up_block_types", UNET["up_block_types"].default), given)
    config = check(path, given, UNET)
    widths, heads = config["block_out_channels"], config["attention_head_dim"]
    for width, count in zip(widths, heads if isinstance(heads, list) else [heads] * len(widths), strict=True):
        if width % count or width % config["norm_num_groups"]:
            raise InputError(
                f"{path}: {width} channels cannot be split into {count} heads (attention_head_dim) and "
                f"{config['norm_num_groups']} groups (norm_num_groups)"
            )
    return config


VAE = {
    "in_channels": fixed(3),
    "out_channels": fixed(3),
    "block_out_channels": listed([64], whole(None, 1, WIDEST), 1, 6),
    "down_block_types": listed(["DownEncoderBlock2D"], fixed("DownEncoderBlock2D"), 1, 6),
    "up_block_types": listed(["UpDecoderBlock2D"], fixed("UpDecoderBlock2D"), 1, 6),
    "layers_per_block": whole(1, 1, 8),
    "act_fn": fixed("silu", "swish"),
    "latent_channels": whole(4, 1, 1024),
    "norm_num_groups": whole(32, 1, WIDEST),
    "scaling_factor": number(0.18215, 1e-6, 1e6),
    "shift_factor": fixed(None),
    "latents_mean": fixed(None),
    "latents_std": fixed(None),
    "force_upcast": flag(True),
    "use_quant_conv": flag(True),
    "use_post_quant_conv": flag(True),
    "mid_block_add_attention": flag(True),
}


def read_vae(path: Path) -> Config:
    """vae/config.json of an AutoencoderKL."""
    return check_vae(path, read_object(path))


def check_vae(path: Path, given: Mapping[str, Any]) -> Config:
    kind = given.get("_class_name", "AutoencoderKL")
    if kind != "AutoencoderKL":
        raise InputError(
            f"{path}: {brief(kind)} is not an autoencoder mast knows; it works with AutoencoderKL"
        )
    config = check(path, given, VAE)
    widths, groups = config["block_out_channels"], config["norm_num_groups"]
    if not len(widths) == len(config["down_block_types"]) == len(config["up_block_types"]):
        raise InputError(f"{path}: {len(widths)} block_out_channels, but other numbers of blocks")
    if any(width % groups for width in widths):
        raise InputError(f"{path}: block_out_channels {widths} do not split into {groups} norm_num_groups")
    return config


PATCH = {
    "channels": whole(16, 1, 1024),
    "patch": fixed(8, 1, 2, 4, 16, 32),
    "widths": listed([160, 96, 64, 32], whole(None, 1, WIDEST), 1, 6),
    "depths": listed([3, 2, 2, 1], whole(None, 0, 64), 1, 6),
    "scaling_factor": number(1.0, 1e-6, 1e6),
}


def read_patch(path: Path) -> Config:
    """autoencoder/config.json of the embedded model's own PatchAutoencoder."""
    config = check(path, read_object(path), PATCH)
    widths, depths, patch = config["widths"], config["depths"], config["patch"]
    if len(widths) != len(depths) or patch != 2 ** (len(widths) - 1):
        raise InputError(
            f"{path}: {len(widths)} widths and {len(depths)} depths; a patch of {patch} needs "
            f"{patch.bit_length()} of each"
        )
    return config


TEXT = {
    "vocab_size": whole(49408, 2, 1 << 20),
    "hidden_size": whole(512, 1, WIDEST),
    "intermediate_size": whole(2048, 1, 4 * WIDEST),
    "num_hidden_layers": whole(12, 1, 96),
    "num_attention_heads": whole(8, 1, 256),
    "max_position_embeddings": whole(77, 2, 4096),
    "hidden_act": fixed("quick_gelu", "gelu"),
    "layer_norm_eps": number(1e-5, 1e-12, 0.1),
}


def read_text_encoder(path: Path) -> Config:
    """text_encoder/config.json of a CLIPTextModel."""
    return check_text_encoder(path, read_object(path))


def check_text_encoder(path: Path, given: Mapping[str, Any]) -> Config:
    kind = given.get("model_type", "clip_text_model")
    if kind != "clip_text_model":
        raise InputError(f"{path}: {brief(kind)} is not a text encoder mast knows; it works with CLIP's")
    config = check(path, given, TEXT)
    width, heads = config["hidden_size"], config["num_attention_heads"]
    if width % heads:
        raise InputError(f"{path}: {width} channels cannot be split into {heads} heads")
    return config


def read_tokens(folder: Path, config: Config) -> list[int]:
    """What a CLIP tokenizer's folder makes of the empty prompt: begin, end, and padding up to its length.

    SD 1.x pads with the end, SD 2.x with a word of its own, which special_tokens_map.json names.
    """
    own = read_object(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    marks = dict(own)
    if (folder / "special_tokens_map.json").exists():
        marks |= read_object(folder / "special_tokens_map.json")
    source = folder / "vocab.json"
    words: Any
    if source.exists():
        words = read_object(source, VOCABULARY_BYTES)
    else:
        source = folder / "tokenizer.json"
        model = read_object(source, VOCABULARY_BYTES).get("model")
        words = model.get("vocab") if isinstance(model, dict) else None
        if not isinstance(words, dict):
            raise InputError(f"{source}: holds no vocabulary; fetch the model again")
    tokens = []
    for mark, usual in (
        ("bos_token", "<|startoftext|>"),
        ("eos_token", "<|endoftext|>"),
        ("pad_token", "<|endoftext|>"),
    ):
        word = marks.get(mark, usual)
        word = word.get("content") if isinstance(word, dict) else word
        token = words.get(word) if isinstance(word, str) else None
        if type(token) is not int or not 0 <= token < config["vocab_size"]:
            raise InputError(
                f"{source}: {mark} {brief(word)} is no word of the text encoder's; fetch it again"
            )
        tokens.append(token)
    places, length = config["max_position_embeddings"], own.get("model_max_length")
    length = length if type(length) is int and 2 <= length <= places else places
    return [*tokens[:2], *tokens[2:] * (length - 2)]


TIMESTEPS = 10_000
SCHEDULER = {
    "num_train_timesteps": whole(1000, 2, TIMESTEPS),
    "beta_start": number(0.0001, 1e-9, 0.999),
    "beta_end": number(0.02, 1e-9, 0.999),
    "beta_schedule": fixed("linear", "scaled_linear", "squaredcos_cap_v2"),
    "trained_betas": either(fixed(None), listed(None, number(None, 1e-9, 0.999), 2, TIMESTEPS)),
    "clip_sample": flag(True),
    "set_alpha_to_one": flag(True),
    "steps_offset": whole(0, 0, TIMESTEPS),
    "prediction_type": fixed(*PREDICTION_TYPES),
    "thresholding": flag(False),
    "dynamic_thresholding_ratio": number(0.995, 0, 1),
    "clip_sample_range": number(1.0, 0, 1e6),
    "sample_max_value": number(1.0, 0, 1e6),
    "timestep_spacing": fixed("leading", "trailing", "linspace"),
    "rescale_betas_zero_snr": flag(False),
}


SD_SCHEDULER = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "steps_offset": 1,
    "clip_sample": False,
    "set_alpha_to_one": False,
    "prediction_type": "epsilon",
}


def check_scheduler(path: Path, given: Mapping[str, Any]) -> Config:
    """The noise schedule in any of diffusers' scheduler configs; missing keys as DDIMScheduler fills them."""
    kind = given.get("_class_name", "DDIMScheduler")
    if not isinstance(kind, str) or kind.startswith("FlowMatch"):
        raise InputError(f"{path}: {brief(kind)} is no schedule of Stable Diffusion 1.x or 2.x")
    config = check(path, given, SCHEDULER)
    betas, count = config["trained_betas"], config["num_train_timesteps"]
    if betas is not None and len(betas) != count:
        raise InputError(f"{path}: {len(betas)} trained_betas for {count} num_train_timesteps")
    if config["beta_start"] > config["beta_end"]:
        raise InputError(f"{path}: beta_start {config['beta_start']} is above beta_end {config['beta_end']}")
    return config


DEFAULTS = {
    "preset": Rule(None, lambda value: value is None or isinstance(value, str), "the name of a preset"),
    "size": either(fixed(None), whole(None, 64, 8192)),
}
TAU = either(fixed(None), listed(None, number(None, -1e6, 1e6), 3, 3))


def read_defaults(path: Path) -> dict[str, Any]:
    """defaults.json: settings and method options a model works best with; nothing where there is no file.

    preset and size are settings; any other key is a method's name, with that method's options.
    """
    if not path.exists():
        return {}
    given = read_object(path)
    check(path, given, DEFAULTS)
    for name in sorted(given.keys() - DEFAULTS.keys()):
        if not isinstance(given[name], dict):
            raise InputError(f"{path}: {name} is {brief(given[name])}; it must be options by name")
        check(path, given[name], {"tau": TAU})
    return {key: value for key, value in given.items() if value is not None}
