"""What all trainings share: the length of a run, its end, its learning rate, its checkpoints, its log."""

import argparse
import math
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from mast.files import atomic


class Run:
    """So many minutes, so many steps, or up to a step. As a context manager it turns SIGTERM and SIGINT into
    an orderly end.

    `decay` is how much of the end, in the same unit, the learning rate takes to fall to zero. With `until` a
    run that was interrupted goes on with the rate that was due.
    """

    def __init__(
        self,
        minutes: float | None = None,
        steps: int | None = None,
        decay: float = 0.0,
        until: int | None = None,
    ):
        given = [length for length in (minutes, steps, until) if length is not None]
        if len(given) != 1:
            raise ValueError("a run needs either minutes, or steps, or the step to train until")
        self.length = float(given[0])
        if not 0 <= decay <= self.length:
            raise ValueError(f"the decay ({decay:g}) must lie within the run ({self.length:g})")
        self.by_steps, self.absolute, self.decay = minutes is None, until is not None, decay
        self.steps_done, self.stopped, self.started = 0, False, time.monotonic()
        self.handlers: dict[int, Any] = {}

    def begin_at(self, step: int) -> "Run":
        """Tells the run how many steps the checkpoint has behind it."""
        self.steps_done = step if self.absolute else 0
        return self

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
        """The share of the learning rate that is due: 1, then a half cosine down to 0."""
        left = max(0.0, self.left)  # the last step may begin in time and end late
        return 1.0 if left >= self.decay else 0.5 - 0.5 * math.cos(math.pi * left / self.decay)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """--minutes, --steps or --until, and --decay: the arguments of `Run`."""
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--minutes", type=float, help="how long to train now")
    length.add_argument("--steps", type=int, help="how many steps to train now")
    length.add_argument(
        "--until", type=int, metavar="STEP", help="train until the checkpoint has made so many steps"
    )
    parser.add_argument(
        "--decay",
        type=float,
        default=0.0,
        metavar="X",
        help="over the last X minutes (steps) the learning rate falls to zero",
    )


def run_from(args: argparse.Namespace) -> Run:
    """The run that these arguments describe."""
    return Run(args.minutes, args.steps, args.decay, args.until)


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
    with atomic(path) as part:
        torch.save(state, part)


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
