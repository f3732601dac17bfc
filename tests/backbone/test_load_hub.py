"""Hub ids: from the local hub cache where they are there, one line of advice where they are not."""

import os
import shutil
from pathlib import Path

import pytest
import torch

import mast
from mast import InputError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache on a machine without a network."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)  # read from the environment once, at import
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    return cache


def put_in_cache(hub: Path, name: str, folder: Path) -> None:
    """The layout of a downloaded model: blobs, a snapshot of links to them, and the reference main."""
    root = hub / f"models--{name.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "blobs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    for i, file in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        blob, link = root / "blobs" / f"{i:040x}", root / "snapshots" / COMMIT / file.relative_to(folder)
        shutil.copy(file, blob)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))


def test_a_hub_id_that_is_not_cached_is_one_line_that_says_what_to_do(hub):
    with pytest.raises(InputError) as error:
        mast.load("CompVis/stable-diffusion-v1-4")
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("CompVis/stable-diffusion-v1-4: not cached")
    assert "download CompVis/stable-diffusion-v1-4" in message and "--model" in message


def test_a_cached_hub_id_loads_without_a_network(hub, tiny_sd_folder, tiny_backbone):
    put_in_cache(hub, "someone/tiny-sd", tiny_sd_folder)
    backbone = mast.load("someone/tiny-sd")
    assert backbone.name == "someone/tiny-sd"
    assert backbone.fingerprint == tiny_backbone.fingerprint
    latent = torch.randn(1, 4, 8, 8)
    with torch.inference_mode():
        assert torch.equal(backbone.predict(latent, 1), tiny_backbone.predict(latent, 1))


def test_a_cached_hub_id_that_lacks_a_part_is_an_input_error(hub, tiny_sd_folder, tmp_path):
    part = Path(shutil.copytree(tiny_sd_folder, tmp_path / "part"))
    shutil.rmtree(part / "vae")
    put_in_cache(hub, "someone/half-a-model", part)
    with pytest.raises(InputError, match="vae"):
        mast.load("someone/half-a-model")


@pytest.mark.parametrize("name", ["./no/such", "/no/such", "a/b/c", "model.safetensors", "a/model.ckpt"])
def test_what_cannot_be_a_hub_id_is_not_asked_for(hub, name):
    with pytest.raises(InputError, match="no such model"):
        mast.load(name)
