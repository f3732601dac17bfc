"""No control at all: inversion and back. What is lost here, no method can keep."""

from __future__ import annotations

from dataclasses import dataclass

from .method import DiffusionMethod


@dataclass(frozen=True)
class Reconstruct(DiffusionMethod):
    name = "reconstruct"
    about = "inverts the photo and denoises it again, without any style"
