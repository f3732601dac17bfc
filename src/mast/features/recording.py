"""The feature bank: what the content and the styles look like to the U-Net, per timestep and site.

Three sources give the same numbers: `Recorded` (kept in memory while inverting), `Stored` (read from a
file, as needed) and `Replayed` (computed again from the trajectory, one timestep at a time, when memory is
short).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import StopForward, controlled
from ..backbone.sites import Site
from ..core.attention import RowStatistics, row_statistics
from ..core.ddim import Schedule
from .inversion import Trajectory

STYLE = frozenset({"key", "value"})
CONTENT = frozenset({"query", "key", "value", "residual", "statistics"})


class SiteFeatures:
    """What was seen at one site: query, key, value (heads, tokens, d), residual (1, c, h, w), all float32
    on the device; statistics of the site's own self-attention. What was not recorded is None.

    Each is fetched by its name when it is first asked for, and once: on a GPU that is a copy.
    """

    def __init__(self, fetch: Callable[[str], Tensor | None]):
        self._fetch = fetch

    @cached_property
    def query(self) -> Tensor | None:
        return self._fetch("query")

    @cached_property
    def key(self) -> Tensor | None:
        return self._fetch("key")

    @cached_property
    def value(self) -> Tensor | None:
        return self._fetch("value")

    @cached_property
    def residual(self) -> Tensor | None:
        return self._fetch("residual")

    @cached_property
    def statistics(self) -> RowStatistics | None:
        found = self._fetch("statistics")
        return None if found is None else RowStatistics(*found)

    def key_value(self) -> tuple[Tensor, Tensor]:
        assert self.key is not None and self.value is not None
        return self.key, self.value


class FeatureSource(Protocol):
    def features(self, step: int) -> Mapping[str, Tensor]:
        """Tensors by "site.name" of one timestep (index into the schedule), in the storage dtype."""
        ...


class Recorder:
    """A control that changes nothing and keeps what passes by."""

    def __init__(self, sites: Sequence[Site], wants: Iterable[str], dtype: torch.dtype, stop: bool = False):
        self.wants, self.dtype, self.last, self.stop = frozenset(wants), dtype, sites[-1].index, stop
        self.seen: dict[str, Tensor] = {}

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if name in self.wants:
                self.seen[f"{site.index}.{name}"] = self._keep(tensor[0])
        if "statistics" in self.wants:
            # Of the rounded tensors: those are the ones that attention will meet.
            found = row_statistics(query[0].to(self.dtype).float(), key[0].to(self.dtype).float())
            self.seen[f"{site.index}.statistics"] = torch.stack([found.log_z, found.log_peak]).cpu()
        if self.stop and site.index == self.last:
            raise StopForward
        return F.scaled_dot_product_attention(query, key, value)

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        if "residual" in self.wants:
            self.seen[f"{site.index}.residual"] = self._keep(branch)
        return branch

    def _keep(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to("cpu", self.dtype, copy=True).contiguous()

    def take(self) -> dict[str, Tensor]:
        """What was seen since the last call."""
        seen, self.seen = self.seen, {}
        return seen


class Recorded:
    """Features in memory, by timestep."""

    def __init__(self, steps: Mapping[int, Mapping[str, Tensor]]):
        self.steps = steps

    def features(self, step: int) -> Mapping[str, Tensor]:
        return self.steps[step]

    def flat(self) -> dict[str, Tensor]:
        """All of it by "step.site.name", as `Stored` reads it."""
        return {
            f"{step}.{name}": tensor for step, seen in self.steps.items() for name, tensor in seen.items()
        }


class Stored:
    """Features in a safetensors file; only the timestep asked for is read."""

    def __init__(self, path: Path):
        self.file = safe_open(path, framework="pt")
        self.names: dict[int, list[str]] = {}
        for key in self.file.keys():  # noqa: SIM118  (not a dict)
            step, name = key.split(".", 1)
            self.names.setdefault(int(step), []).append(name)

    def features(self, step: int) -> Mapping[str, Tensor]:
        return {name: self.file.get_tensor(f"{step}.{name}") for name in self.names[step]}


class Replayed:
    """Features computed again from the trajectory when they are asked for."""

    def __init__(
        self,
        backbone: Backbone,
        trajectory: Trajectory,
        schedule: Schedule,
        wants: Iterable[str],
        dtype: torch.dtype,
    ):
        self.backbone, self.trajectory, self.schedule = backbone, trajectory, schedule
        self.wants, self.dtype = frozenset(wants), dtype

    @torch.inference_mode()
    def features(self, step: int) -> Mapping[str, Tensor]:
        recorder = Recorder(self.backbone.sites, self.wants, self.dtype, stop=True)
        with controlled(self.backbone.unet, self.backbone.sites, recorder):
            self.backbone.visit(
                self.trajectory.points[step : step + 1].to(self.backbone.device),
                self.schedule.timesteps[step],
            )
        return recorder.take()


def at_site(
    seen: Mapping[str, Tensor], site: Site, device: torch.device, keep: Tensor | None = None
) -> SiteFeatures:
    """The features of one site in float32 on the device. keep: indices of the only keys and values to
    use.
    """

    def fetch(name: str) -> Tensor | None:
        tensor = seen.get(f"{site.index}.{name}")
        if tensor is None:
            return None
        tensor = tensor.to(device).float()  # 16 bits travel, not 32
        return tensor.index_select(1, keep) if keep is not None and name in ("key", "value") else tensor

    return SiteFeatures(fetch)


class StepFeatures:
    """A picture's features at one timestep, site after site.

    The last site asked about is held, so that its ResBlock and its attention, and all who look at one photo,
    share what they fetch. keep: by grid, the only keys to use; latent: (h, w) of the picture's own.
    """

    def __init__(
        self,
        seen: Mapping[str, Tensor],
        device: torch.device,
        keep: Mapping[tuple[int, int], Tensor],
        latent: tuple[int, int],
    ):
        self.seen, self.device, self.keep, self.latent = seen, device, keep, latent
        self._held: tuple[int, SiteFeatures] | None = None

    def at(self, site: Site) -> SiteFeatures:
        if self._held is None or self._held[0] != site.index:
            keep = self.keep.get(site.grid(self.latent))
            self._held = site.index, at_site(self.seen, site, self.device, keep)
        return self._held[1]


def bytes_needed(
    sites: Sequence[Site], latent: tuple[int, int], steps: int, wants: Iterable[str], dtype: torch.dtype
) -> int:
    """How much memory one picture's features take."""
    total = 0
    for site in sites:
        h, w = site.grid(latent)
        for name in wants:
            total += (
                2 * 4 * site.heads * h * w if name == "statistics" else site.channels * h * w * dtype.itemsize
            )
    return total * steps


def available_memory() -> int:
    """Bytes that can be used without swapping: what the system calls available, within a container's
    limit.
    """
    try:
        fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 << 30
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(free, limit - used)
    except (OSError, ValueError):
        return free
