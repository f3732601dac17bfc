"""What the benchmarks share: interleaved medians, peak memory, models to measure on, tables and JSON.

These machines are noisy, so what is compared is measured in turns within one run, and medians are reported.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from mast.backbone.backbone import Backbone, KLAutoencoder
from mast.backbone.load import SD_SCHEDULER, load

SD14_UNET = {
    "block_out_channels": (320, 640, 1280, 1280),
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
    "layers_per_block": 2,
    "sample_size": 64,
}
SD14_VAE = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
    "latent_channels": 4,
    "scaling_factor": 0.18215,
}


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser


def medians(functions: Mapping[str, Callable[[], Any]], repeats: int = 3) -> dict[str, float]:
    """Seconds of each function: one warm-up, then `repeats` rounds in which each takes its turn."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            if turn:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def rss() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak_extra(function: Callable[[], Any]) -> tuple[int, Any]:
    """By how many bytes resident memory rises while the function runs (sampled each ms), and its result."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # memory freed but still held would hide what is asked for
    before = peak = rss()
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.is_set():
            peak = max(peak, rss())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = function()
    finally:
        stop.set()
        watcher.join()
    return max(0, peak - before), result


def sd14_sized(seed: int = 0) -> Backbone:
    """Stable Diffusion 1.4's architecture at full size, random weights: for speed and memory only."""
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

    torch.manual_seed(seed)
    layout = {"memory_format": torch.channels_last}
    unet = UNet2DConditionModel(**SD14_UNET).eval().requires_grad_(False).to(**layout)
    vae = AutoencoderKL(**SD14_VAE).eval().requires_grad_(False).to(**layout)
    prompt = torch.randn(1, 77, 768)
    return Backbone(
        "sd-1.4-size", unet, KLAutoencoder(vae), DDIMScheduler.from_config(SD_SCHEDULER), prompt, trusted=True
    )


def model(name: str) -> Backbone:
    return sd14_sized() if name == "sd-1.4-size" else load(name)


def show(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """One table; columns are the keys of the first row."""
    table = Table(*rows[0], title=f"{title}\n{machine()}", box=None)
    for row in rows:
        table.add_row(
            *[
                "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
                for value in row.values()
            ]
        )
    Console(width=180, highlight=False).print(table)


def write(rows: Sequence[Mapping[str, Any]], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(list(rows), indent=1) + "\n")


def machine() -> str:
    return f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, float32"
