"""A diffusers folder becomes a backbone, or an error that names the folder and what it lacks."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from PIL import Image
from safetensors.torch import save_file

import mast
from mast import InputError, Job, Region, Settings
from mast.job import PRESETS


@pytest.fixture
def folder(tiny_sd_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(tiny_sd_folder, tmp_path / "model"))


@pytest.fixture
def textless(folder: Path, tiny_backbone) -> Path:
    """A copy with a stored prompt instead of a text encoder, which loads faster."""
    shutil.rmtree(folder / "text_encoder")
    shutil.rmtree(folder / "tokenizer")
    save_file({"empty_prompt": tiny_backbone.empty_prompt.clone()}, folder / "empty_prompt.safetensors")
    return folder


def test_a_saved_folder_loads_and_stylizes_two_regions(tiny_backbone, tiny_sd_folder, job, quick):
    assert tiny_backbone.name == str(tiny_sd_folder)
    assert tiny_backbone.stride == 64 and tiny_backbone.latent_stride == 8
    result = mast.stylize(job, tiny_backbone, settings=quick)
    assert result.image.size == (64, 64) and result.image.mode == "RGB"
    assert np.asarray(result.image).std() > 0


def test_a_path_can_be_given_as_text_and_stylize_loads_it_itself(tiny_sd_folder, pictures):
    job = Job(str(pictures["photo"]), [Region(str(pictures["style_a"]))])
    result = mast.stylize(job, str(tiny_sd_folder), settings=Settings(steps=2, size=128))
    assert result.image.size == (64, 64)


def test_the_model_is_frozen_and_in_evaluation_mode(tiny_backbone):
    for part in (tiny_backbone.unet, tiny_backbone.autoencoder):
        assert not part.training and not any(weight.requires_grad for weight in part.parameters())


def test_predictions_are_those_of_the_folders_unet(tiny_backbone, tiny_sd_folder):
    unet = UNet2DConditionModel.from_pretrained(tiny_sd_folder / "unet").eval()
    latent = torch.randn(1, 4, 8, 16)
    with torch.inference_mode():
        expected = unet(latent, 321, tiny_backbone.empty_prompt).sample
        torch.testing.assert_close(tiny_backbone.predict(latent, 321), expected, atol=1e-5, rtol=1e-4)


def test_encoding_takes_the_posterior_mean_times_the_scaling_factor(tiny_backbone, tiny_sd_folder):
    vae = AutoencoderKL.from_pretrained(tiny_sd_folder / "vae").eval()
    image = torch.rand(1, 3, 64, 128) * 2 - 1
    with torch.inference_mode():
        mean = vae.encode(image).latent_dist.mean
        latent = tiny_backbone.encode(image)
        torch.testing.assert_close(latent, mean * 0.18215, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(
            tiny_backbone.decode(latent), vae.decode(mean).sample, atol=1e-4, rtol=1e-3
        )
    assert torch.equal(tiny_backbone.encode(image), latent), "no randomness"


def test_without_a_scheduler_stable_diffusions_own_is_used(textless, tiny_backbone):
    shutil.rmtree(textless / "scheduler")
    backbone = mast.load(textless)
    assert backbone.schedule(50) == tiny_backbone.schedule(50)
    assert backbone.scheduler.config.prediction_type == "epsilon"


def test_the_schedulers_own_words_are_honoured(textless):
    path = textless / "scheduler" / "scheduler_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "prediction_type": "v_prediction", "timestep_spacing": "trailing"}))
    schedule = mast.load(textless).schedule(10)
    assert schedule.prediction_type == "v_prediction" and schedule.timesteps[-1] == 999
    assert mast.load(textless, prediction_type="sample").schedule(10).prediction_type == "sample"


def test_a_pndm_scheduler_as_stable_diffusion_ships_it_is_read(textless, tiny_backbone):
    path = textless / "scheduler" / "scheduler_config.json"
    config = {k: v for k, v in json.loads(path.read_text()).items() if k in ("beta_start", "beta_end")}
    path.write_text(
        json.dumps(
            {
                **config,
                "_class_name": "PNDMScheduler",
                "beta_schedule": "scaled_linear",
                "num_train_timesteps": 1000,
                "set_alpha_to_one": False,
                "skip_prk_steps": True,
                "steps_offset": 1,
                "trained_betas": None,
                "clip_sample": False,
            }
        )
    )
    assert mast.load(textless).schedule(50) == tiny_backbone.schedule(50)


def test_the_empty_prompt_of_the_text_encoder_equals_a_stored_one(textless, tiny_backbone):
    assert tiny_backbone.empty_prompt.shape == (1, 8, 32)
    stored = mast.load(textless)
    assert torch.equal(stored.empty_prompt, tiny_backbone.empty_prompt)
    assert stored.fingerprint == tiny_backbone.fingerprint


def test_the_empty_prompt_is_the_encoders_answer_to_begin_and_ends(tiny_backbone, tiny_sd_folder):
    from transformers import CLIPTextModel

    encoder = CLIPTextModel.from_pretrained(tiny_sd_folder / "text_encoder").eval()
    tokens = torch.tensor([[52, *[53] * 7]])
    with torch.inference_mode():
        expected = encoder(tokens).last_hidden_state
    torch.testing.assert_close(tiny_backbone.empty_prompt, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("part", ["unet", "vae", "text_encoder"])
def test_a_missing_part_is_named_with_its_folder(folder, part):
    shutil.rmtree(folder / part)
    with pytest.raises(InputError, match=part) as error:
        mast.load(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_a_missing_tokenizer_is_named_with_its_folder(folder):
    shutil.rmtree(folder / "tokenizer")
    with pytest.raises(InputError, match="tokenizer") as error:
        mast.load(folder)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("part", ["unet", "vae"])
def test_cut_weights_are_an_input_error(textless, part):
    weights = next((textless / part).glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=str(textless)):
        mast.load(textless)


def test_a_cut_text_encoder_is_an_input_error(folder):
    weights = next((folder / "text_encoder").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=str(folder)):
        mast.load(folder)


@pytest.mark.parametrize("name", ["unet/config.json", "scheduler/scheduler_config.json", "defaults.json"])
def test_damaged_json_is_an_input_error(textless, name):
    (textless / name).write_text("{ not json")
    with pytest.raises(InputError, match=str(textless)):
        mast.load(textless)


def test_a_prompt_of_another_width_is_refused(folder):
    save_file({"empty_prompt": torch.zeros(1, 8, 16)}, folder / "empty_prompt.safetensors")
    with pytest.raises(InputError, match=r"16 channels.*32"):
        mast.load(folder)


def test_a_folder_that_is_no_model_and_a_name_that_is_nothing_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"unet/config\.json"):
        mast.load(tmp_path)
    with pytest.raises(InputError, match=r"no-such-model.*no such model"):
        mast.load("no-such-model")
    with pytest.raises(InputError, match="no such model"):
        mast.load("models/nothing.safetensors")
    (tmp_path / "photo.png").write_bytes(b"")
    Image.new("RGB", (16, 16)).save(tmp_path / "photo.png")
    with pytest.raises(InputError, match=r"photo\.png"):
        mast.load(tmp_path / "photo.png")


def test_an_unknown_prediction_type_is_an_input_error(tiny_sd_folder):
    with pytest.raises(InputError, match="score"):
        mast.load(tiny_sd_folder, prediction_type="score")


def test_a_models_own_defaults_are_used_unless_something_else_is_said(textless):
    (textless / "defaults.json").write_text(json.dumps({"preset": "fast", "mast": {"lam": 0.5}}))
    backbone = mast.load(textless)
    settings = mast.default_settings(backbone)
    assert {name: getattr(settings, name) for name in PRESETS["fast"]} == PRESETS["fast"]
    assert mast.default_settings(backbone, steps=7).steps == 7
    assert mast.default_method(backbone).lam == 0.5
    assert mast.default_method(backbone, lam=0.1).lam == 0.1
    assert isinstance(mast.default_method(backbone, "reconstruct"), mast.Reconstruct)


def test_an_unknown_preset_in_a_models_defaults_is_an_input_error(textless):
    (textless / "defaults.json").write_text(json.dumps({"preset": "warp"}))
    with pytest.raises(InputError, match="warp"):
        mast.default_settings(mast.load(textless))


@pytest.mark.parametrize("part", ["unet", "vae"])
def test_weights_that_lack_a_tensor_are_refused_not_filled_with_noise(textless, part):
    from safetensors.torch import load_file

    path = next((textless / part).glob("*.safetensors"))
    weights = load_file(path)
    weights.pop(next(name for name in weights if name.endswith("conv2.weight")))
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=str(textless)):
        mast.load(textless)


@pytest.mark.parametrize("damage", ["cut", "other"])
def test_a_damaged_stored_prompt_is_an_input_error(folder, damage):
    path = folder / "empty_prompt.safetensors"
    save_file({"empty_prompt" if damage == "cut" else "prompt": torch.zeros(1, 8, 32)}, path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match=r"empty_prompt\.safetensors"):
        mast.load(folder)
