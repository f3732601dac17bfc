"""From a picture to its trajectory and features, by the cheapest way: read, recorded while inverting, or
replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import controlled
from ..core.ddim import Schedule
from ..core.windows import Windows
from .cache import Cache, content_key
from .inversion import Trajectory, invert, passes
from .recording import FeatureSource, Recorded, Recorder, Replayed, Stored, bytes_needed

FEATURE_SHARE = 8  # a picture's features are kept on disk when they take at most this part of the cache


class Library:
    """Looks pictures up for one run. The same picture is never inverted twice, in this run or, with a
    cache, in any other.

    A picture too large for one pass is seen in windows (core/windows.py): it has one trajectory, whose
    predictions are blended, and a source of features for each window. One window is the whole picture.
    """

    def __init__(
        self,
        backbone: Backbone,
        schedule: Schedule,
        refined: bool,
        dtype: torch.dtype,
        cache: Cache | None,
        in_memory: bool,
    ):
        self.backbone, self.schedule, self.refined, self.dtype = backbone, schedule, refined, dtype
        self.cache, self.in_memory = cache, in_memory
        self.trajectories: dict[str, Trajectory] = {}
        self.sources: dict[str, FeatureSource] = {}
        self.hits = 0
        self.encoding = 0.0  # seconds

    def whole(self, image: Tensor) -> Windows:
        """The one window that covers the latent of an image."""
        stride = self.backbone.latent_stride
        latent = (image.shape[-2] // stride, image.shape[-1] // stride)
        return Windows(latent, max(latent))

    def key(self, image: Tensor, windows: Windows | None = None) -> str:
        return content_key(
            image,
            model=self.backbone.fingerprint,
            device=self.backbone.device.type,
            dtype=str(self.backbone.dtype),
            timesteps=self.schedule.timesteps,
            inversion="refined" if self.refined else "plain",
            **({"compiled": True} if self.backbone.compiled else {}),
            **({"clean_end": end} if (end := self.schedule.clean_end) is not None else {}),
            **({"windows": windows.corners} if windows is not None and len(windows) > 1 else {}),
        )

    def feature_key(self, key: str, wants: Iterable[str], window: int = 0) -> str:
        name = f"{key}-{'-'.join(sorted(wants))}-{str(self.dtype).removeprefix('torch.')}"
        return f"{name}-{window}" if window else name

    def passes_for(
        self,
        image: Tensor,
        wants: frozenset[str],
        before: Collection[str] = frozenset(),
        windows: Windows | None = None,
    ) -> int:
        """How many U-Net passes looking it up will take for this picture before denoising begins.

        before: keys of pictures that will have been looked up by then.
        """
        key, count = self.key(image, windows), 1 if windows is None else len(windows)
        known = (
            key in before
            or key in self.trajectories
            or (self.cache is not None and self.cache.find("trajectories", key) is not None)
        )
        if not known:
            return count * passes(self.schedule, self.refined, bool(wants) and self.in_memory)
        stored = self.cache is not None and all(
            self.cache.find("features", self.feature_key(key, wants, i)) is not None for i in range(count)
        )
        return 0 if stored or not wants or not self.in_memory else count * len(self.schedule)

    def look_up(
        self, image: Tensor, wants: frozenset[str], on_pass: Callable[[int], None], about: str = ""
    ) -> tuple[Trajectory, FeatureSource | None]:
        """The trajectory of an image (1, 3, h, w), and a source of the wanted features (None when nothing
        is wanted).

        on_pass is called after each U-Net pass with the timestep's index, and may raise to cancel.
        about: what to call the image for people who list the cache.
        """
        trajectory, sources = self.look_up_in(self.whole(image), image, wants, on_pass, about)
        return trajectory, sources[0]

    def look_up_in(
        self,
        windows: Windows,
        image: Tensor,
        wants: frozenset[str],
        on_pass: Callable[[int], None],
        about: str = "",
    ) -> tuple[Trajectory, Sequence[FeatureSource | None]]:
        """As `look_up`, seen in windows of its latent: a source for each of them."""
        key = self.key(image, windows)
        wanted = [self.feature_key(key, wants, i) for i in range(len(windows))] if wants else []
        trajectory = self.trajectories.get(key) or self._read(key)
        sources = [self.sources[name] for name in wanted if name in self.sources]
        if len(sources) < len(wanted) and trajectory is not None:
            stored = [self._stored(name, wants) for name in wanted]
            sources = [source for source in stored if source is not None]
        if trajectory is None:
            trajectory, recorded = self._invert(windows, image, wants, on_pass, about)
            self._keep(wanted, recorded, windows, wants, about)
            sources = [*recorded]
        if len(sources) < len(wanted):
            replayed = [
                Replayed(self.backbone, trajectory.seen_in(windows, i), self.schedule, wants, self.dtype)
                for i in range(len(windows))
            ]
            sources = [*replayed]
            if self.in_memory:
                recorded = self._record_again(replayed, on_pass)
                self._keep(wanted, recorded, windows, wants, about)
                sources = [*recorded]
        self.trajectories[key] = trajectory
        self.sources |= dict(zip(wanted, sources, strict=True))
        return trajectory, sources or [None] * len(windows)

    def _read(self, key: str) -> Trajectory | None:
        lengths = {"latents": len(self.schedule)}
        lengths |= {"points": len(self.schedule)} if self.refined else {}
        lengths |= {} if self.schedule.clean_end is None else {"below": 1}
        found = self.cache.read("trajectories", key, lengths) if self.cache else None
        if found is None or any(found[name].shape[:1] != (count,) for name, count in lengths.items()):
            return None
        self.hits += 1
        kept = {name: found[name].to(self.backbone.device) for name in lengths}
        return Trajectory(kept["latents"], kept.get("points", kept["latents"]), kept.get("below"))

    def _stored(self, wanted: str, wants: frozenset[str]) -> FeatureSource | None:
        steps, sites = range(len(self.schedule)), self.backbone.sites
        names = {f"{step}.{site.index}.{want}" for step in steps for site in sites for want in wants}
        path = self.cache.sound("features", wanted, names) if self.cache else None
        return Stored(path) if path else None

    def _invert(
        self,
        windows: Windows,
        image: Tensor,
        wants: frozenset[str],
        on_pass: Callable[[int], None],
        about: str,
    ) -> tuple[Trajectory, list[Recorded]]:
        backbone, schedule = self.backbone, self.schedule
        began = time.perf_counter()
        clean = backbone.encode(image, windows if len(windows) > 1 else None)
        self.encoding += time.perf_counter() - began
        backbone.check_prediction_type(windows.cut(clean, 0))
        recorder = Recorder(backbone.sites, wants, self.dtype) if wants and self.in_memory else None
        steps: list[dict[int, dict[str, Tensor]]] = [{} for _ in windows.corners]

        def predict(latent: Tensor, step: int) -> Tensor:
            def one(i: int) -> Tensor:
                prediction = backbone.predict(windows.cut(latent, i), schedule.timesteps[step])
                if recorder is not None:
                    steps[i][step] = recorder.take()
                on_pass(step)
                return prediction

            return windows.blend(map(one, range(len(windows))))

        watched = nullcontext() if recorder is None else controlled(backbone.unet, backbone.sites, recorder)
        with watched:
            trajectory = invert(
                backbone, clean, schedule, self.refined, features=recorder is not None, predict=predict
            )
        if self.cache:
            tensors = {"latents": trajectory.latents.cpu()}
            if self.refined:
                tensors["points"] = trajectory.points.cpu()
            if trajectory.below is not None:
                tensors["below"] = trajectory.below.cpu()
            self.cache.write("trajectories", self.key(image, windows), tensors, about)
        return trajectory, [] if recorder is None else [Recorded(seen) for seen in steps]

    def _record_again(self, windows: Sequence[Replayed], on_pass: Callable[[int], None]) -> list[Recorded]:
        """What replaying gives, kept in memory."""
        found: list[dict[int, Mapping[str, Tensor]]] = [{} for _ in windows]
        for step in range(len(self.schedule)):
            for seen, replayed in zip(found, windows, strict=True):
                seen[step] = replayed.features(step)
                on_pass(step)
        return [Recorded(seen) for seen in found]

    def _keep(
        self,
        wanted: Sequence[str],
        sources: Sequence[Recorded],
        windows: Windows,
        wants: frozenset[str],
        about: str,
    ) -> None:
        """Features on disk, where a picture's do not take too much of it; sources: none, or one a window."""
        if self.cache and self.feature_bytes(windows, wants) <= self.cache.limit // FEATURE_SHARE:
            for name, source in zip(wanted, sources, strict=False):
                self.cache.write("features", name, source.flat(), about)

    def feature_bytes(self, windows: Windows, wants: Iterable[str]) -> int:
        """Of a picture's features, all windows together."""
        one = bytes_needed(self.backbone.sites, windows.size, len(self.schedule), wants, self.dtype)
        return len(windows) * one
