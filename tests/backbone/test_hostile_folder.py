"""Whatever a model folder's small files hold, the answer is a model or an InputError that names the file."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import mast
from mast import InputError
from mast.backbone.load import PREVIEW

CONFIGS = [
    "unet/config.json",
    "vae/config.json",
    "scheduler/scheduler_config.json",
    "text_encoder/config.json",
    "tokenizer/vocab.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer/special_tokens_map.json",
    "defaults.json",
]


@pytest.fixture(scope="module")
def folder(tiny_sd_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole folder; a test that changes a file of it puts it back."""
    copy = Path(shutil.copytree(tiny_sd_folder, tmp_path_factory.mktemp("hostile") / "model"))
    (copy / "defaults.json").write_text(
        json.dumps({"preset": "fast", "size": 128, "mast": {"tau": [0, 0.4, 1]}})
    )
    return copy


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the embedded model's own kind of autoencoder."""
    return Path(shutil.copytree(PREVIEW, tmp_path_factory.mktemp("hostile") / "ours"))


class Changed:
    """Other bytes in a file, for a while."""

    def __init__(self, path: Path, content: bytes):
        self.path, self.content = path, content

    def __enter__(self) -> Path:
        self.before = self.path.read_bytes()
        self.path.write_bytes(self.content)
        return self.path

    def __exit__(self, *_: object) -> None:
        self.path.write_bytes(self.before)


def refused(folder: Path, name: str) -> str:
    with pytest.raises(InputError) as error:
        mast.load(folder, device="cpu")
    assert name in str(error.value) and len(str(error.value)) < 1000
    return str(error.value)


ODD = {
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "text": b'"text"',
    "nothing": b"",
    "half": b'{"in_channels": ',
    "binary": b"\xff\xfe\x00\x80" * 8,
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "digits": b'{"in_channels": ' + b"9" * 5000 + b"}",
    "huge": b" " * (65 << 20) + b"{}",
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_that_is_no_settings_is_named(folder, name, kind):
    with Changed(folder / name, ODD[kind]):
        refused(folder, name.split("/")[-1])


@pytest.mark.parametrize("name", CONFIGS)
def test_other_encodings_of_the_same_text_are_read_or_refused(folder, name, tiny_backbone):
    text = (folder / name).read_text()
    for encoding in ("utf-16", "utf-8-sig"):
        with Changed(folder / name, text.encode(encoding)):
            try:
                assert mast.load(folder).fingerprint == tiny_backbone.fingerprint
            except InputError as error:
                assert name.split("/")[-1] in str(error)


WRONG = [
    ("scheduler/scheduler_config.json", {"num_train_timesteps": 10**9}),
    ("scheduler/scheduler_config.json", {"num_train_timesteps": 1e9}),
    ("scheduler/scheduler_config.json", {"num_train_timesteps": 0}),
    ("scheduler/scheduler_config.json", {"num_train_timesteps": True}),
    ("scheduler/scheduler_config.json", {"beta_start": -1}),
    ("scheduler/scheduler_config.json", {"beta_end": "0.012"}),
    ("scheduler/scheduler_config.json", {"beta_start": 0.5}),
    ("scheduler/scheduler_config.json", {"beta_schedule": "sigmoid"}),
    ("scheduler/scheduler_config.json", {"beta_schedule": ["linear"]}),
    ("scheduler/scheduler_config.json", {"trained_betas": [0.1, 0.2]}),
    ("scheduler/scheduler_config.json", {"trained_betas": "many"}),
    ("scheduler/scheduler_config.json", {"prediction_type": "score"}),
    ("scheduler/scheduler_config.json", {"prediction_type": None}),
    ("scheduler/scheduler_config.json", {"timestep_spacing": {}}),
    ("scheduler/scheduler_config.json", {"steps_offset": -3}),
    ("scheduler/scheduler_config.json", {"set_alpha_to_one": 1}),
    ("scheduler/scheduler_config.json", {"_class_name": "FlowMatchEulerDiscreteScheduler"}),
    ("scheduler/scheduler_config.json", {"_class_name": 3}),
    ("unet/config.json", {"_class_name": "FluxTransformer2DModel"}),
    ("unet/config.json", {"block_out_channels": [32, 32, 64]}),
    ("unet/config.json", {"block_out_channels": [10**9] * 4}),
    ("unet/config.json", {"block_out_channels": [32, 32, 64, "64"]}),
    ("unet/config.json", {"block_out_channels": None}),
    ("unet/config.json", {"attention_head_dim": 7}),
    ("unet/config.json", {"attention_head_dim": 0}),
    ("unet/config.json", {"attention_head_dim": [8, 8]}),
    ("unet/config.json", {"norm_num_groups": 0}),
    ("unet/config.json", {"norm_num_groups": None}),
    ("unet/config.json", {"cross_attention_dim": [32, 32, 32, 32]}),
    ("unet/config.json", {"layers_per_block": 2**40}),
    ("unet/config.json", {"transformer_layers_per_block": 10**6}),
    ("unet/config.json", {"up_block_types": "UpBlock2D"}),
    ("unet/config.json", {"down_block_types": ["DownBlock2D"]}),
    ("unet/config.json", {"class_embed_type": "timestep"}),
    ("unet/config.json", {"only_cross_attention": True}),
    ("unet/config.json", {"act_fn": "relu"}),
    ("unet/config.json", {"norm_eps": 0}),
    ("unet/config.json", {"sample_size": -1}),
    ("unet/config.json", {"sample_size": "64"}),
    ("vae/config.json", {"block_out_channels": [32]}),
    ("vae/config.json", {"block_out_channels": []}),
    ("vae/config.json", {"scaling_factor": 0}),
    ("vae/config.json", {"scaling_factor": None}),
    ("vae/config.json", {"shift_factor": 0.1}),
    ("vae/config.json", {"latents_mean": [0, 0, 0, 0]}),
    ("vae/config.json", {"latent_channels": 4.5}),
    ("vae/config.json", {"norm_num_groups": 7}),
    ("vae/config.json", {"down_block_types": ["AttnDownBlock2D"] * 4}),
    ("vae/config.json", {"_class_name": "VQModel"}),
    ("text_encoder/config.json", {"num_hidden_layers": 10**7}),
    ("text_encoder/config.json", {"hidden_size": -32}),
    ("text_encoder/config.json", {"num_attention_heads": 5}),
    ("text_encoder/config.json", {"hidden_act": "evil"}),
    ("text_encoder/config.json", {"model_type": "t5"}),
    ("text_encoder/config.json", {"vocab_size": 100}),
    ("tokenizer/special_tokens_map.json", {"pad_token": "no such word"}),
    ("tokenizer/special_tokens_map.json", {"bos_token": ["<|startoftext|>"]}),
    ("tokenizer/vocab.json", {"<|endoftext|>": 10**9}),
    ("tokenizer/vocab.json", {"<|endoftext|>": "53"}),
    ("defaults.json", {"preset": 3}),
    ("defaults.json", {"size": 10**6}),
    ("defaults.json", {"size": "512"}),
    ("defaults.json", {"mast": [0.1]}),
    ("defaults.json", {"mast": {"tau": [1, 2]}}),
    ("defaults.json", {"mast": {"tau": [1, 2, "3"]}}),
    ("defaults.json", {"styleid": None, "zstar": 5}),
]


@pytest.mark.parametrize(("name", "changes"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_setting_is_named_with_its_file(folder, name, changes):
    content = {**json.loads((folder / name).read_text()), **changes}
    with Changed(folder / name, json.dumps(content).encode()):
        said = refused(folder, str(folder))
        blamed = "vocab.json" if name.startswith("tokenizer") else name
        assert blamed in said or name.split("/")[0] in said


@pytest.mark.parametrize(
    "changes",
    [{"widths": [1]}, {"patch": 3}, {"depths": [10**9] * 4}, {"channels": None}, {"scaling_factor": 0}],
)
def test_the_embedded_kind_of_autoencoder_is_checked_too(ours, changes):
    path = ours / "autoencoder" / "config.json"
    with Changed(path, json.dumps({**json.loads(path.read_text()), **changes}).encode()):
        refused(ours, "autoencoder")


PIPES = """
import os, sys, mast
for name in sys.argv[2:]:
    path = os.path.join(sys.argv[1], name)
    os.rename(path, path + ".aside")
    os.mkfifo(path)
    try:
        mast.load(sys.argv[1], device="cpu")
    except mast.InputError as error:
        print(error)
    os.replace(path + ".aside", path)
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipes_are_refused_and_not_waited_for(ours, tmp_path):
    model = shutil.copytree(ours, tmp_path / "model")
    names = [
        "unet/config.json",
        "defaults.json",
        "scheduler/scheduler_config.json",
        "autoencoder/config.json",
    ]
    names += ["empty_prompt.safetensors", "unet/diffusion_pytorch_model.safetensors"]
    given = [sys.executable, "-c", PIPES, str(model), *names]
    ran = subprocess.run(given, capture_output=True, text=True, timeout=120, check=True)
    said = ran.stdout.splitlines()
    assert len(said) == len(names)
    assert all(name in line and "pipe" in line for name, line in zip(names, said, strict=True))


@pytest.mark.parametrize(
    "name", ["unet/config.json", "vae/config.json", "defaults.json", "text_encoder/config.json"]
)
def test_a_folder_or_a_loop_in_a_files_place_is_refused(folder, name):
    path = folder / name
    aside = path.rename(path.with_suffix(".aside"))
    try:
        path.mkdir()
        refused(folder, str(folder))
        path.rmdir()
        path.symlink_to(path)
        if name != "defaults.json":  # a link to nothing is no file, and this one need not be there
            refused(folder, str(folder))
        path.unlink()
    finally:
        aside.rename(path)


PROMPTS = {
    "two sides": torch.zeros(8, 32),
    "two prompts": torch.zeros(2, 8, 32),
    "no tokens": torch.zeros(1, 0, 32),
    "no channels": torch.zeros(1, 8, 0),
    "a number": torch.zeros(()),
    "whole numbers": torch.zeros(1, 8, 32, dtype=torch.int64),
    "NaN": torch.full((1, 8, 32), float("nan")),
    "too many": torch.zeros(1, 5000, 32),
}


@pytest.mark.parametrize("kind", PROMPTS)
def test_an_odd_stored_prompt_is_refused_by_its_file(folder, kind):
    path = folder / "empty_prompt.safetensors"
    save_file({"empty_prompt": PROMPTS[kind]}, path)
    try:
        refused(folder, "empty_prompt.safetensors")
    finally:
        path.unlink()


@pytest.mark.parametrize(
    "name", ["", ".", "\0", "a/\0", "x" * 5000, "a" * 300 + "/b", "~", "a//b", "a/b\n", "//", "a/.."]
)
def test_odd_names_are_refused(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        mast.load(name, device="cpu", allow_download=False)
    assert len(str(error.value)) < 1000


# ------------------------------------------------------------------------------------------------ anything

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["linear", "epsilon", "silu", "<|endoftext|>", 1, 2, 4, 32, 64, 1000]),
    lambda inside: st.lists(inside, max_size=5) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=12,
)


def model_or_input_error(folder: Path) -> None:
    try:
        backbone = mast.load(folder, device="cpu")
    except InputError as error:
        assert str(folder) in str(error)
    else:
        assert backbone.sites and backbone.native_size > 0 and len(backbone.schedule(2)) == 2


@pytest.mark.parametrize("name", CONFIGS)
@given(content=json_values)
@settings(max_examples=15)
def test_any_json_gives_a_model_or_an_input_error(folder, name, content):
    with Changed(folder / name, json.dumps(content).encode()):
        model_or_input_error(folder)


@pytest.mark.parametrize("name", CONFIGS)
@given(data=st.data())
@settings(max_examples=15)
def test_a_good_config_with_some_keys_changed_gives_a_model_or_an_input_error(folder, name, data):
    content = json.loads((folder / name).read_text())
    for key in data.draw(st.lists(st.sampled_from(sorted(content)), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            content.pop(key, None)
        else:
            content[key] = data.draw(json_values)
    with Changed(folder / name, json.dumps(content).encode()):
        model_or_input_error(folder)


@pytest.mark.parametrize("name", CONFIGS)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.booleans())
@settings(max_examples=10)
def test_a_byte_changed_or_the_end_cut_off_gives_a_model_or_an_input_error(folder, name, place, byte, cut):
    content = bytearray((folder / name).read_bytes())
    place %= len(content)
    content[place] = byte
    with Changed(folder / name, bytes(content[:place] if cut else content)):
        model_or_input_error(folder)


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.booleans())
@settings(max_examples=15)
def test_changed_weights_give_a_model_or_an_input_error(ours, place, byte, cut):
    """In the header, where names, shapes and kinds of numbers stand."""
    path = ours / "empty_prompt.safetensors"
    content = bytearray(path.read_bytes())
    place %= len(content)
    content[place] = byte
    with Changed(path, bytes(content[:place] if cut else content)):
        model_or_input_error(ours)
