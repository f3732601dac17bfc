"""The command line in this very process: exit code, stdout, stderr; and a folder with all a run needs."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.tiny import SCHEDULER, halves, make_unet, picture


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What was said, after the first word on what is being loaded."""
        said = self.err.strip().splitlines()
        return said[1:] if said and re.fullmatch(r"loading .+ \.\.\.", said[0]) else said


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole Stable Diffusion folder, as narrow as it gets, with a stored empty prompt."""
    from diffusers import AutoencoderKL, DDIMScheduler

    folder = tmp_path_factory.mktemp("models") / "narrow-sd"
    make_unet(block_out_channels=(32,) * 4, norm_num_groups=8).save_pretrained(folder / "unet")
    torch.manual_seed(1)
    AutoencoderKL(
        block_out_channels=(32,) * 4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        norm_num_groups=8,
    ).save_pretrained(folder / "vae")
    DDIMScheduler(**SCHEDULER).save_pretrained(folder / "scheduler")
    save_file({"empty_prompt": torch.randn(1, 1, 32)}, folder / "empty_prompt.safetensors")
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds photo.png (96x64), left.png, right.png, a.png, b.png, and map.png (red, green, black)."""
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    picture(96, 64, 1).save("photo.png")
    picture(64, 64, 2).save("a.png")
    picture(80, 64, 3).save("b.png")
    for name, mask in zip(("left", "right"), halves(96, 64), strict=True):
        Image.fromarray((mask * 255).astype(np.uint8)).save(f"{name}.png")
    colours = np.zeros((64, 96, 3), np.uint8)
    colours[:, :48], colours[:, 48:72] = (255, 0, 0), (0, 255, 0)
    Image.fromarray(colours).save("map.png")
    return here


@pytest.fixture
def run(
    folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """`mast ...` through main(), so that its exit codes are the real ones."""
    from mast.cli import main

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["mast", *map(str, arguments)])
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        capsys.readouterr()
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        said = capsys.readouterr()
        return Outcome(code if isinstance(code, int) else 0, said.out, said.err)

    return call


@pytest.fixture
def stylize(run: Run, model: Path) -> Run:
    """`mast stylize` on the narrow model, in few steps."""
    return lambda *arguments: run("stylize", *arguments, "--model", model, "--steps", 3, "--size", 64)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(run: Run, folder: Path) -> Callable[..., str]:
    """Runs what must be refused: exit 2, one line on stderr, no file made or changed. Returns the line."""

    def call(*arguments: object) -> str:
        before = contents(folder)
        outcome = run(*arguments)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert len(outcome.lines) == 1, outcome.err
        assert outcome.lines[0].startswith("mast: ")
        assert "Traceback" not in outcome.err
        assert contents(folder) == before
        return outcome.lines[0]

    return call
