"""Tiny real models and small pictures that every test may use. Nothing here is mocked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from PIL import Image

from tests.tiny import SCHEDULER, halves, make_unet, picture, write_tokenizer

settings.register_profile(
    "mast",
    deadline=None,
    max_examples=int(os.environ.get("MAST_FUZZ", "30")),  # `make fuzz` tries more
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("mast")

# Tests stop programs with signals. What is started in the background of a shell ignores some of them, and so
# would every program that it starts.
for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """So small a model only loses by sharing its work between cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's cache is touched: every test has its own."""
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "mast-cache"))
    monkeypatch.delenv("MAST_CACHE_LIMIT", raising=False)
    return tmp_path / "mast-cache"


@pytest.fixture(scope="session")
def warm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm-cache")


@pytest.fixture
def warm_cache(own_cache: Path, warm_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests about something else: one cache for the session, so that no picture is inverted twice."""
    monkeypatch.setenv("MAST_CACHE", str(warm_folder))


# ------------------------------------------------------------------------------------------------ models


@pytest.fixture(scope="session")
def tiny_unet():
    return make_unet()


@pytest.fixture(scope="session")
def tiny_sd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole Stable Diffusion 1.x folder at tiny widths, as save_pretrained writes it."""
    from diffusers import AutoencoderKL, DDIMScheduler
    from transformers import CLIPTextConfig, CLIPTextModel

    folder = tmp_path_factory.mktemp("models") / "tiny-sd"
    make_unet().save_pretrained(folder / "unet")
    torch.manual_seed(1)
    AutoencoderKL(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        scaling_factor=0.18215,
    ).save_pretrained(folder / "vae")
    DDIMScheduler(**SCHEDULER).save_pretrained(folder / "scheduler")
    words = write_tokenizer(folder / "tokenizer")
    config = CLIPTextConfig(
        vocab_size=words,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=1,
        max_position_embeddings=8,
        bos_token_id=words - 2,
        eos_token_id=words - 1,
    )
    CLIPTextModel(config).save_pretrained(folder / "text_encoder")
    return folder


@pytest.fixture(scope="session")
def tiny_backbone(tiny_sd_folder: Path):
    import mast

    return mast.load(tiny_sd_folder, device="cpu")


@pytest.fixture(scope="session")
def preview():
    """The embedded model: the one trained U-Net that is always there."""
    import mast

    return mast.load("preview", device="cpu")


# ------------------------------------------------------------------------------------------------ pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files: a 64 px photo, its left and right masks, two styles."""
    folder = tmp_path_factory.mktemp("pictures")
    left, right = (Image.fromarray((mask * 255).astype(np.uint8)) for mask in halves(64, 64))
    made = {
        "photo": picture(64, 64, 1),
        "left": left,
        "right": right,
        "style_a": picture(64, 64, 2),
        "style_b": picture(64, 64, 3),
    }
    for name, image in made.items():
        image.save(folder / f"{name}.png")
    return {name: folder / f"{name}.png" for name in made}


@pytest.fixture(scope="session")
def job(pictures: dict[str, Path]):
    """Two regions that tile a 64 px photo."""
    from mast import Job, Region

    return Job(
        pictures["photo"],
        (
            Region(pictures["style_a"], pictures["left"]),
            Region(pictures["style_b"], pictures["right"]),
        ),
    )


@pytest.fixture(scope="session")
def quick():
    """The fewest steps that still have a middle."""
    from mast import Settings

    return Settings(steps=3, size=64)


@pytest.fixture(scope="session")
def example_photo() -> Path:
    return ROOT / "examples" / "photos" / "cat.jpg"


os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
