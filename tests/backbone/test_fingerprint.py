"""The fingerprint changes with anything that changes a picture, and with nothing else."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import mast


@pytest.fixture
def folder(tiny_sd_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_sd_folder, tmp_path / "elsewhere"))


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_place_and_the_time_do_not_matter(folder, tiny_backbone):
    assert mast.load(folder).fingerprint == tiny_backbone.fingerprint
    assert len(tiny_backbone.fingerprint) == 16 and int(tiny_backbone.fingerprint, 16) >= 0


def test_the_version_that_saved_a_config_does_not_matter(folder, tiny_backbone):
    change_json(folder / "unet" / "config.json", _diffusers_version="0.30.0")
    assert mast.load(folder).fingerprint == tiny_backbone.fingerprint


@pytest.mark.parametrize("part", ["unet", "vae", "text_encoder"])
def test_one_changed_weight_is_another_model(folder, tiny_backbone, part):
    path = next((folder / part).glob("*.safetensors"))
    weights = load_file(path)
    name = next(name for name in sorted(weights) if weights[name].dim() > 1)
    weights[name].view(-1)[0] += 0.5
    save_file(weights, path, metadata={"format": "pt"})
    assert mast.load(folder).fingerprint != tiny_backbone.fingerprint


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("unet/config.json", {"norm_eps": 1e-3}),
        ("scheduler/scheduler_config.json", {"beta_end": 0.02}),
        ("vae/config.json", {"scaling_factor": 0.5}),
        ("vae/config.json", {"norm_num_groups": 16}),
    ],
)
def test_a_changed_config_is_another_model(folder, tiny_backbone, file, change):
    change_json(folder / file, **change)
    assert mast.load(folder).fingerprint != tiny_backbone.fingerprint


def test_a_prediction_type_given_by_hand_is_another_model(tiny_sd_folder, tiny_backbone):
    assert mast.load(tiny_sd_folder, prediction_type="sample").fingerprint != tiny_backbone.fingerprint
    assert mast.load(tiny_sd_folder, prediction_type="epsilon").fingerprint == tiny_backbone.fingerprint


def test_the_memory_layout_does_not_matter(tiny_sd_folder, tiny_backbone):
    other = mast.load(tiny_sd_folder)
    other.unet.to(memory_format=torch.contiguous_format)
    assert other.fingerprint == tiny_backbone.fingerprint
