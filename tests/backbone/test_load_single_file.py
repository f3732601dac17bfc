"""A Stable Diffusion 1.x checkpoint in one file, in the original naming, gives the model it was made from."""

from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from safetensors.torch import save_file

import mast
from mast import InputError
from tests.backbone.ldm_format import to_ldm


@pytest.fixture(scope="module")
def state(tiny_sd_folder: Path) -> dict[str, torch.Tensor]:
    from transformers import CLIPTextModel

    return to_ldm(
        UNet2DConditionModel.from_pretrained(tiny_sd_folder / "unet"),
        AutoencoderKL.from_pretrained(tiny_sd_folder / "vae"),
        CLIPTextModel.from_pretrained(tiny_sd_folder / "text_encoder"),
    )


@pytest.fixture(scope="module")
def checkpoint(state, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoints") / "tiny.safetensors"
    save_file(state, path)
    return path


def assert_same_model(loaded, original):
    latent, image = torch.randn(1, 4, 8, 16), torch.rand(1, 3, 64, 64) * 2 - 1
    with torch.inference_mode():
        torch.testing.assert_close(loaded.empty_prompt, original.empty_prompt, atol=1e-6, rtol=1e-5)
        assert torch.equal(loaded.encode(image), original.encode(image))
        assert torch.equal(loaded.decode(latent), original.decode(latent))
        for t in (1, 501, 981):
            torch.testing.assert_close(
                loaded.predict(latent, t), original.predict(latent, t), atol=1e-5, rtol=1e-4
            )
    weights = original.unet.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in loaded.unet.state_dict().items())
    assert loaded.schedule(50) == original.schedule(50)


def test_a_safetensors_file_gives_the_original_model(checkpoint, tiny_backbone):
    assert_same_model(mast.load(checkpoint), tiny_backbone)


def test_a_ckpt_file_gives_the_original_model(state, tmp_path, tiny_backbone):
    torch.save({"state_dict": state, "global_step": 7}, tmp_path / "tiny.ckpt")
    assert_same_model(mast.load(tmp_path / "tiny.ckpt"), tiny_backbone)


def test_a_single_file_runs_a_whole_stylize(checkpoint, job, quick):
    assert mast.stylize(job, str(checkpoint), settings=quick).image.size == (64, 64)


def test_half_precision_weights_load_as_float32(state, tmp_path):
    half = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    save_file(half, tmp_path / "half.safetensors")
    backbone = mast.load(tmp_path / "half.safetensors")
    assert {weight.dtype for weight in backbone.unet.parameters()} == {torch.float32}
    assert backbone.predict(torch.zeros(1, 4, 8, 8), 1).isfinite().all()


def test_a_stored_prompt_beside_the_file_replaces_the_text_encoder(state, tmp_path):
    own = {name: value for name, value in state.items() if not name.startswith("cond_stage_model")}
    save_file(own, tmp_path / "tiny.safetensors")
    with pytest.raises(InputError, match=r"no text encoder.*empty_prompt\.safetensors"):
        mast.load(tmp_path / "tiny.safetensors")
    save_file({"empty_prompt": torch.ones(1, 3, 32)}, tmp_path / "empty_prompt.safetensors")
    assert torch.equal(mast.load(tmp_path / "tiny.safetensors").empty_prompt, torch.ones(1, 3, 32))


@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
@pytest.mark.parametrize("kept", [0, 7, 5000])
def test_a_truncated_file_is_an_input_error(checkpoint, state, tmp_path, suffix, kept):
    path = tmp_path / f"cut{suffix}"
    if suffix == ".ckpt":
        torch.save({"state_dict": dict(list(state.items())[:40])}, path)
    else:
        path.write_bytes(checkpoint.read_bytes())
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match="cut") as error:
        mast.load(path)
    assert "\n" not in str(error.value)


class Surprise:
    """Stands for anything in a pickle that is not a tensor."""


def test_a_pickle_that_holds_what_no_training_leaves_is_not_opened(tmp_path):
    torch.save({"state_dict": Surprise()}, tmp_path / "evil.ckpt")
    with pytest.raises(InputError, match=r"not opened for safety.*Surprise.*\.safetensors"):
        mast.load(tmp_path / "evil.ckpt")


def averaged(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The U-Net's weights under the names of training's running averages, with its two counters."""
    own = {
        "model_ema." + name.removeprefix("model.").replace(".", ""): value.clone()
        for name, value in state.items()
        if name.startswith("model.diffusion_model.")
    }
    assert "model_ema.diffusion_modelinput_blocks00weight" in own
    return {**own, "model_ema.decay": torch.tensor(0.9999), "model_ema.num_updates": torch.tensor(470000)}


@pytest.mark.parametrize("suffix", [".safetensors", ".ckpt"])
def test_averaged_weights_are_preferred_where_a_file_has_both(state, tmp_path, tiny_backbone, suffix):
    last = {
        name: value + 1 if name.startswith("model.diffusion_model.") else value
        for name, value in state.items()
    }
    both = {**last, **averaged(state)}
    path = tmp_path / f"full-ema{suffix}"
    if suffix == ".ckpt":
        torch.save({"state_dict": both, "callbacks": {"best": np.float64(0.1)}}, path)
    else:
        save_file(both, path)
    assert_same_model(mast.load(path), tiny_backbone)


def test_counters_alone_are_no_averages_and_half_of_them_are_refused(state, tmp_path, tiny_backbone):
    own = averaged(state)
    counters = {name: own.pop(name) for name in ("model_ema.decay", "model_ema.num_updates")}
    save_file({**state, **counters}, tmp_path / "counters.safetensors")
    assert_same_model(mast.load(tmp_path / "counters.safetensors"), tiny_backbone)
    lost = sorted(own)[3]
    del own[lost]
    save_file({**state, **own}, tmp_path / "half.safetensors")
    with pytest.raises(InputError, match=rf"half\.safetensors.*averaged weights are not whole, {lost}"):
        mast.load(tmp_path / "half.safetensors")


def test_an_inpainting_checkpoint_is_refused_in_words(state, tmp_path):
    name = "model.diffusion_model.input_blocks.0.0.weight"
    wide = torch.cat([state[name], state[name], state[name][:, :1]], dim=1)
    save_file({**state, name: wide.contiguous()}, tmp_path / "inpainting.safetensors")
    with pytest.raises(InputError, match=r"inpainting\.safetensors.*9 channels.*inpainting model"):
        mast.load(tmp_path / "inpainting.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        "model.diffusion_model.input_blocks.0.0.weight",
        "model.diffusion_model.out.2.weight",
        "first_stage_model.quant_conv.weight",
        "first_stage_model.encoder.down.0.block.0.conv1.weight",
        "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight",
        "cond_stage_model.transformer.text_model.embeddings.position_embedding.weight",
    ],
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 0), (1, 1), (5, 5, 5, 5)])
def test_tensors_of_odd_shapes_are_an_input_error(state, tmp_path, name, shape):
    save_file({**state, name: torch.zeros(shape)}, tmp_path / "odd.safetensors")
    with pytest.raises(InputError, match=r"odd\.safetensors"):
        mast.load(tmp_path / "odd.safetensors")


def test_a_text_encoder_that_lacks_a_tensor_is_refused(state, tmp_path):
    lost = "cond_stage_model.transformer.text_model.encoder.layers.1.mlp.fc2.bias"
    save_file({name: value for name, value in state.items() if name != lost}, tmp_path / "part.safetensors")
    with pytest.raises(InputError, match=r"layers\.1\.mlp\.fc2\.bias is missing"):
        mast.load(tmp_path / "part.safetensors")


def test_an_odd_prompt_beside_the_file_is_refused_by_its_name(checkpoint, tmp_path):
    (tmp_path / "tiny.safetensors").write_bytes(checkpoint.read_bytes())
    (tmp_path / "empty_prompt.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"empty_prompt\.safetensors: damaged"):
        mast.load(tmp_path / "tiny.safetensors")


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("model.diffusion_model.", "model.diffusion_model"),
        ("first_stage_model.", "no autoencoder"),
        ("model.diffusion_model.output_blocks.7.0.in_layers.2.weight", "do not fit"),
    ],
)
def test_what_is_missing_is_named(state, tmp_path, missing, named):
    save_file({k: v for k, v in state.items() if not k.startswith(missing)}, tmp_path / "part.safetensors")
    with pytest.raises(InputError, match=named) as error:
        mast.load(tmp_path / "part.safetensors")
    assert "part.safetensors" in str(error.value) and "\n" not in str(error.value)


def test_sdxl_and_stable_diffusion_2_files_are_refused_by_name(state, tmp_path):
    save_file({**state, "conditioner.embedders.0.x": torch.zeros(1)}, tmp_path / "xl.safetensors")
    with pytest.raises(InputError, match="SDXL"):
        mast.load(tmp_path / "xl.safetensors")
    projection = "model.diffusion_model.input_blocks.1.1.proj_in.weight"
    save_file({**state, projection: state[projection][:, :, 0, 0].contiguous()}, tmp_path / "two.safetensors")
    with pytest.raises(InputError, match=r"Stable Diffusion 2\.x"):
        mast.load(tmp_path / "two.safetensors")
