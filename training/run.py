"""What both trainings share: the length of a run, its end, its learning rate, its checkpoints, its log."""

import argparse
import math
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class Run:
    """So many minutes or steps. As a context manager it turns SIGTERM and SIGINT into an orderly end.

    `decay` is how much of the end, in the same unit, the learning rate takes to fall to a tenth.
    """

    def __init__(self, minutes: float | None = None, steps: int | None = None, decay: float = 0.0):
        if (minutes is None) == (steps is None):
            raise ValueError("a run needs either minutes or steps")
        self.length = float(minutes if steps is None else steps)  # type: ignore[arg-type]
        if not 0 <= decay <= self.length:
            raise ValueError(f"the decay ({decay:g}) must lie within the run ({self.length:g})")
        self.by_steps, self.decay = steps is not None, decay
        self.steps_done, self.stopped, self.started = 0, False, time.monotonic()
        self.handlers: dict[int, Any] = {}

    def __enter__(self) -> "Run":
        self.started = time.monotonic()
        self.handlers = {s: signal.signal(s, self.stop) for s in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def stop(self, number: int, frame: FrameType | None) -> None:
        print("stopping after this step; once more to leave without saving", flush=True)
        self.stopped = True
        signal.signal(number, self.handlers[number])

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Minutes or steps to go; none after a signal."""
        return 0 if self.stopped else self.length - (self.steps_done if self.by_steps else self.seconds / 60)

    def rate(self) -> float:
        """The share of the learning rate that is due: 1, then a half cosine down to 0.1."""
        left = max(0.0, self.left)  # the last step may begin in time and end late
        if left >= self.decay:
            return 1.0
        return 0.1 + 0.45 * (1 - math.cos(math.pi * left / self.decay))


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """--minutes or --steps, and --decay: the arguments of `Run`."""
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="how long to train now")
    length.add_argument("--steps", type=int, help="how many steps to train now")
    parser.add_argument(
        "--decay",
        type=float,
        default=0.0,
        metavar="X",
        help="over the last X minutes (steps) the learning rate falls to a tenth",
    )


def sizes(text: str) -> tuple[int, ...]:
    """'128,160,192' -> (128, 160, 192): crop sizes in pixels; one named twice is drawn twice as often."""
    numbers = tuple(int(number) for number in text.split(","))
    if any(number < 64 or number % 8 for number in numbers):
        raise argparse.ArgumentTypeError(f"crop sizes must be multiples of 8 from 64 on, not {text}")
    return numbers


def optimizer_step(optimizer: Optimizer, loss: Tensor, lr: float, warm_up: int) -> None:
    """One step, gradients clipped. The optimizer knows how many it has taken: warm-up survives a resume."""
    taken = next((int(state["step"]) for state in optimizer.state.values()), 0)
    for group in optimizer.param_groups:
        group["lr"] = lr * min(1.0, (taken + 1) / warm_up)
    optimizer.zero_grad()
    loss.backward()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    # A broken loss must end the run before it reaches the weights: the last checkpoint is still good.
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    optimizer.step()


@torch.no_grad()
def follow(ema: Mapping[str, Tensor], weights: Mapping[str, Tensor], keep: float) -> None:
    """Exponential moving average, in place: ema = keep * ema + (1 - keep) * weights."""
    for name, average in ema.items():
        average.lerp_(weights[name], 1 - keep)


def save(state: dict[str, Any], path: Path) -> None:
    """Whole or not at all: an interrupted write leaves the old checkpoint."""
    unfinished = path.with_suffix(".tmp")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def load(path: Path) -> dict[str, Any]:
    """A checkpoint; tensors and plain values only."""
    return torch.load(path, map_location="cpu", weights_only=True)


class Log:
    """Named values, printed as means since the last line, kept whole as `history`."""

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.printed: dict[str, int] = {}

    def add(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)

    def print(self, head: str) -> None:
        fresh = {name: values[self.printed.get(name, 0) :] for name, values in self.history.items()}
        means = [f"{name} {sum(values) / len(values):.4f}" for name, values in fresh.items() if values]
        if means:
            print("  ".join([head, *means]), flush=True)
        self.printed = {name: len(values) for name, values in self.history.items()}
