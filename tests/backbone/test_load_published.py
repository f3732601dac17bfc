"""Model folders as they are published: 16 bits only, in pieces, with old names, of other models."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel

import mast
from mast import InputError
from mast.backbone.configs import check_scheduler, check_unet, check_vae
from tests.tiny import make_unet

WEIGHTS = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
}


@pytest.fixture
def folder(tiny_sd_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(tiny_sd_folder, tmp_path / "model"))


def weights_of(folder: Path, part: str) -> tuple[Path, dict[str, torch.Tensor]]:
    path = folder / part / f"{WEIGHTS[part]}.safetensors"
    return path, load_file(path)


@pytest.mark.parametrize(("variant", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_a_folder_with_16_bit_weights_alone_loads(folder, tiny_backbone, variant, dtype):
    for part in WEIGHTS:
        path, weights = weights_of(folder, part)
        save_file(
            {name: value.to(dtype) for name, value in weights.items()},
            path.with_suffix(f".{variant}.safetensors"),
        )
        path.unlink()
    backbone = mast.load(folder)
    assert {weight.dtype for weight in backbone.unet.parameters()} == {torch.float32}
    loaded = backbone.unet.state_dict()
    for name, value in tiny_backbone.unet.state_dict().items():
        assert torch.equal(loaded[name], value.to(dtype).float())
    torch.testing.assert_close(backbone.empty_prompt, tiny_backbone.empty_prompt, atol=0.1, rtol=0.1)
    latent = torch.randn(1, 4, 8, 8)
    with torch.inference_mode():
        backbone.decode(latent)
        backbone.predict(latent, 1)


def test_loading_says_nothing(tiny_sd_folder, capfd):
    """Neither diffusers nor transformers has a word for people who only gave a good model."""
    mast.load(tiny_sd_folder)
    assert capfd.readouterr() == ("", "")


def test_full_precision_is_taken_where_both_are_there(folder, tiny_backbone):
    for part in WEIGHTS:
        path, weights = weights_of(folder, part)
        spoilt = {name: value.half() * 2 for name, value in weights.items()}
        save_file(spoilt, path.with_suffix(".fp16.safetensors"))
        save_file(spoilt, path.with_suffix(".non_ema.safetensors"))
    assert mast.load(folder).fingerprint == tiny_backbone.fingerprint


@pytest.mark.parametrize("variant", [None, "fp16"])
def test_weights_in_pieces_load_as_diffusers_writes_them(folder, variant):
    for part, kind in (("unet", UNet2DConditionModel), ("vae", AutoencoderKL)):
        model = kind.from_pretrained(folder / part, low_cpu_mem_usage=False)
        weights_of(folder, part)[0].unlink()
        model.save_pretrained(folder / part, max_shard_size="1MB", variant=variant)
        assert len(list((folder / part).glob("*-of-*.safetensors"))) > 1
    loaded = mast.load(folder).unet.state_dict()
    whole = UNet2DConditionModel.from_pretrained(folder / "unet", variant=variant, low_cpu_mem_usage=False)
    assert all(torch.equal(value, loaded[name]) for name, value in whole.state_dict().items())
    lost = min((folder / "unet").glob("*-of-*.safetensors"))
    lost.unlink()
    with pytest.raises(InputError, match=lost.name):
        mast.load(folder)


@pytest.mark.parametrize(
    "map_", [None, [], {"conv_in.weight": 3}, {"conv_in.weight": "../../secret.safetensors"}]
)
def test_an_index_that_names_no_files_beside_it_is_refused(folder, map_):
    weights_of(folder, "unet")[0].unlink()
    index = folder / "unet" / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": map_}))
    with pytest.raises(InputError, match=r"index\.json"):
        mast.load(folder)


def test_weights_of_a_time_before_safetensors_are_read_without_running_them(folder, tiny_backbone):
    for part in WEIGHTS:
        path, weights = weights_of(folder, part)
        path.unlink()
        stem = "pytorch_model" if part == "text_encoder" else WEIGHTS[part]
        torch.save(weights, folder / part / f"{stem}.bin")
    assert mast.load(folder).fingerprint == tiny_backbone.fingerprint


def test_the_autoencoders_old_names_are_known(folder, tiny_backbone):
    path, weights = weights_of(folder, "vae")
    old = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
    renamed = {}
    for name, value in weights.items():
        for new, was in old.items():
            name = name.replace(f"attentions.0.{new}.", f"attentions.0.{was}.")
        renamed[name] = value
    assert renamed.keys() != weights.keys()
    save_file(renamed, path)
    assert mast.load(folder).fingerprint == tiny_backbone.fingerprint


@pytest.mark.parametrize("part", list(WEIGHTS))
def test_a_missing_tensor_is_named_not_filled_with_noise(folder, part):
    path, weights = weights_of(folder, part)
    lost = next(name for name in sorted(weights, reverse=True) if name.endswith(".weight"))
    save_file({name: value for name, value in weights.items() if name != lost}, path)
    with pytest.raises(InputError, match=lost.removeprefix("text_model.").replace(".", r"\.")) as error:
        mast.load(folder)
    assert "missing" in str(error.value) and str(folder / part) in str(error.value)


@pytest.mark.parametrize("part", list(WEIGHTS))
def test_a_tensor_of_another_shape_or_kind_is_named(folder, part):
    path, weights = weights_of(folder, part)
    name = next(name for name in sorted(weights) if weights[name].dim() == 1)
    for wrong in (torch.zeros(7), weights[name].to(torch.int8)):
        save_file({**weights, name: wrong}, path)
        with pytest.raises(InputError, match=name.removeprefix("text_model.").replace(".", r"\.")):
            mast.load(folder)


def test_two_loads_of_a_text_encoder_agree_and_old_names_do_too(folder, tiny_backbone):
    path, weights = weights_of(folder, "text_encoder")
    bare = {name.removeprefix("text_model."): value for name, value in weights.items()}
    places = torch.arange(8)[None]
    for stored in (bare, {f"text_model.{name}": value for name, value in bare.items()}):
        prefix = "text_model." if "text_model.final_layer_norm.weight" in stored else ""
        save_file({**stored, f"{prefix}embeddings.position_ids": places}, path)
        assert torch.equal(mast.load(folder).empty_prompt, tiny_backbone.empty_prompt)


def test_stable_diffusion_2_pads_with_a_word_of_its_own(folder, tiny_backbone):
    """special_tokens_map.json says so, against tokenizer_config.json."""
    path = folder / "tokenizer" / "special_tokens_map.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_token": {"content": "a"}}))
    encoder = CLIPTextModel.from_pretrained(folder / "text_encoder").eval()
    with torch.inference_mode():
        expected = encoder(torch.tensor([[52, 53, *[0] * 6]])).last_hidden_state
    prompt = mast.load(folder).empty_prompt
    torch.testing.assert_close(prompt, expected, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(prompt, tiny_backbone.empty_prompt)


def test_a_tokenizer_in_one_file_is_read(folder, tiny_backbone):
    from transformers import CLIPTokenizer

    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
    shutil.rmtree(folder / "tokenizer")
    tokenizer.save_pretrained(folder / "tokenizer")
    if not (folder / "tokenizer" / "tokenizer.json").exists():
        pytest.skip("this transformers writes vocab.json")
    (folder / "tokenizer" / "vocab.json").unlink(missing_ok=True)
    assert torch.equal(mast.load(folder).empty_prompt, tiny_backbone.empty_prompt)


# ------------------------------------------------------------------------------------------------ relatives


def replace_unet(folder: Path, **changes: object) -> None:
    shutil.rmtree(folder / "unet")
    make_unet(**changes).save_pretrained(folder / "unet")


def test_an_inpainting_unet_is_refused_in_words(folder):
    replace_unet(folder, in_channels=9)
    with pytest.raises(InputError, match=r"takes 9 channels.*inpainting model.*take the plain model"):
        mast.load(folder)


@pytest.mark.parametrize(
    ("channels", "says"), [(8, "by instruction"), (7, "upscaler"), (5, "depth map"), (6, "not of one model")]
)
def test_other_relatives_are_refused_in_words(folder, channels, says):
    replace_unet(folder, in_channels=channels)
    with pytest.raises(InputError, match=f"takes {channels} channels.*latents have 4.*{says}"):
        mast.load(folder)


def test_a_unet_of_another_autoencoder_is_refused(folder):
    replace_unet(folder, in_channels=16, out_channels=16)
    with pytest.raises(InputError, match="takes 16 channels and gives 16, the autoencoder's latents have 4"):
        mast.load(folder)
    replace_unet(folder, out_channels=8)
    with pytest.raises(InputError, match="takes 4 channels and gives 8"):
        mast.load(folder)


def test_sdxl_folders_are_refused_by_name(folder):
    path = folder / "unet" / "config.json"
    config = json.loads(path.read_text())
    blocks = ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"]
    path.write_text(json.dumps({**config, "up_block_types": blocks, "addition_embed_type": "text_time"}))
    with pytest.raises(InputError, match="the SDXL family"):
        mast.load(folder)


# ------------------------------------------------------------------------------------------------ configs

SD_1_4 = {
    "unet": {
        "_class_name": "UNet2DConditionModel",
        "_diffusers_version": "0.2.2",
        "act_fn": "silu",
        "attention_head_dim": 8,
        "block_out_channels": [320, 640, 1280, 1280],
        "center_input_sample": False,
        "cross_attention_dim": 768,
        "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
        "downsample_padding": 1,
        "flip_sin_to_cos": True,
        "freq_shift": 0,
        "in_channels": 4,
        "layers_per_block": 2,
        "mid_block_scale_factor": 1,
        "norm_eps": 1e-05,
        "norm_num_groups": 32,
        "out_channels": 4,
        "sample_size": 64,
        "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
    },
    "vae": {
        "_class_name": "AutoencoderKL",
        "_diffusers_version": "0.2.2",
        "act_fn": "silu",
        "block_out_channels": [128, 256, 512, 512],
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "in_channels": 3,
        "latent_channels": 4,
        "layers_per_block": 2,
        "out_channels": 3,
        "sample_size": 512,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
    },
}
SD_2_1 = {
    **SD_1_4["unet"],
    "attention_head_dim": [5, 10, 20, 20],
    "cross_attention_dim": 1024,
    "dual_cross_attention": False,
    "num_class_embeds": None,
    "only_cross_attention": False,
    "sample_size": 96,
    "upcast_attention": True,
    "use_linear_projection": True,
}


@pytest.mark.parametrize(
    ("check", "kind", "given"),
    [
        (check_unet, UNet2DConditionModel, SD_1_4["unet"]),
        (check_unet, UNet2DConditionModel, SD_2_1),
        (check_vae, AutoencoderKL, SD_1_4["vae"]),
    ],
)
def test_published_configs_mean_what_diffusers_makes_of_them(check, kind, given):
    ours = check(Path("config.json"), given)
    with torch.device("meta"):
        own, published = (kind.from_config(config).config for config in (ours, given))
    differing = {key for key in own if not key.startswith("_") and own[key] != published[key]}
    assert differing <= {"sample_size"}, "an autoencoder's has no effect"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"_class_name": "PNDMScheduler", "beta_schedule": "scaled_linear", "skip_prk_steps": True},
        {"_class_name": "DDIMScheduler", "prediction_type": "v_prediction", "num_train_timesteps": 500},
    ],
)
def test_a_schedule_has_the_defaults_of_ddim(given):
    from diffusers import DDIMScheduler

    known = DDIMScheduler.from_config({k: v for k, v in given.items() if k != "skip_prk_steps"}).config
    assert dict(check_scheduler(Path("x.json"), given)) == {k: v for k, v in known.items() if k[0] != "_"}
