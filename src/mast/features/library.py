"""From a picture to its trajectory and features, by the cheapest way: read, recorded while inverting, or
replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

import torch
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import controlled
from ..core.ddim import Schedule
from .cache import Cache, content_key
from .inversion import Trajectory, invert, passes
from .recording import FeatureSource, Recorded, Recorder, Replayed, Stored, bytes_needed

FEATURE_SHARE = 8  # a picture's features are kept on disk when they take at most this part of the cache


class Library:
    """Looks pictures up for one run. The same picture is never inverted twice, in this run or, with a
    cache, in any other.
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

    def key(self, image: Tensor) -> str:
        return content_key(
            image,
            model=self.backbone.fingerprint,
            device=self.backbone.device.type,
            dtype=str(self.backbone.dtype),
            timesteps=self.schedule.timesteps,
            inversion="refined" if self.refined else "plain",
            **({"compiled": True} if self.backbone.compiled else {}),
            **({"clean_end": end} if (end := self.schedule.clean_end) is not None else {}),
        )

    def feature_key(self, key: str, wants: Iterable[str]) -> str:
        return f"{key}-{'-'.join(sorted(wants))}-{str(self.dtype).removeprefix('torch.')}"

    def passes_for(self, image: Tensor, wants: frozenset[str], before: Collection[str] = frozenset()) -> int:
        """How many U-Net passes `look_up` will make for this picture before denoising begins.

        before: keys of pictures that will have been looked up by then.
        """
        key = self.key(image)
        known = (
            key in before
            or key in self.trajectories
            or (self.cache is not None and self.cache.find("trajectories", key) is not None)
        )
        if not known:
            return passes(self.schedule, self.refined, bool(wants) and self.in_memory)
        stored = (
            self.cache is not None and self.cache.find("features", self.feature_key(key, wants)) is not None
        )
        return 0 if stored or not wants or not self.in_memory else len(self.schedule)

    def look_up(
        self, image: Tensor, wants: frozenset[str], on_pass: Callable[[int], None], about: str = ""
    ) -> tuple[Trajectory, FeatureSource | None]:
        """The trajectory of an image (1, 3, h, w), and a source of the wanted features (None when nothing
        is wanted).

        on_pass is called after each U-Net pass with the timestep's index, and may raise to cancel.
        about: what to call the image for people who list the cache.
        """
        key = self.key(image)
        wanted = self.feature_key(key, wants)
        trajectory = self.trajectories.get(key) or self._read(key)
        source = self.sources.get(wanted)
        if source is None and wants and trajectory is not None:
            source = self._stored(wanted, wants)
        if trajectory is None:
            trajectory, source = self._invert(image, key, wants, on_pass, about)
        elif source is None and wants and self.in_memory:
            source = self._record_again(trajectory, wants, on_pass)
            self._keep(wanted, source, image, wants, about)
        if source is None and wants:
            source = Replayed(self.backbone, trajectory, self.schedule, wants, self.dtype)
        self.trajectories[key] = trajectory
        if source is not None:
            self.sources[wanted] = source
        return trajectory, source

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
        self, image: Tensor, key: str, wants: frozenset[str], on_pass: Callable[[int], None], about: str
    ) -> tuple[Trajectory, FeatureSource | None]:
        began = time.perf_counter()
        clean = self.backbone.encode(image)
        self.encoding += time.perf_counter() - began
        self.backbone.check_prediction_type(clean)
        recorder = Recorder(self.backbone.sites, wants, self.dtype) if wants and self.in_memory else None
        steps: dict[int, dict[str, Tensor]] = {}

        def seen(step: int) -> None:
            if recorder is not None:
                steps[step] = recorder.take()
            on_pass(step)

        if recorder is None:
            trajectory = invert(self.backbone, clean, self.schedule, self.refined, seen, features=False)
        else:
            with controlled(self.backbone.unet, self.backbone.sites, recorder):
                trajectory = invert(self.backbone, clean, self.schedule, self.refined, seen, features=True)
        if self.cache:
            tensors = {"latents": trajectory.latents.cpu()}
            if self.refined:
                tensors["points"] = trajectory.points.cpu()
            if trajectory.below is not None:
                tensors["below"] = trajectory.below.cpu()
            self.cache.write("trajectories", key, tensors, about)
        if recorder is None:
            return trajectory, None
        source = Recorded(steps)
        self._keep(self.feature_key(key, wants), source, image, wants, about)
        return trajectory, source

    def _record_again(
        self, trajectory: Trajectory, wants: frozenset[str], on_pass: Callable[[int], None]
    ) -> Recorded:
        replayed = Replayed(self.backbone, trajectory, self.schedule, wants, self.dtype)
        steps = {}
        for step in range(len(self.schedule)):
            steps[step] = replayed.features(step)
            on_pass(step)
        return Recorded(steps)

    def _keep(self, wanted: str, source: Recorded, image: Tensor, wants: frozenset[str], about: str) -> None:
        if self.cache and self.feature_bytes(image, wants) <= self.cache.limit // FEATURE_SHARE:
            self.cache.write("features", wanted, source.flat(), about)

    def feature_bytes(self, image: Tensor, wants: Iterable[str]) -> int:
        stride = self.backbone.latent_stride
        latent = (image.shape[-2] // stride, image.shape[-1] // stride)
        return bytes_needed(self.backbone.sites, latent, len(self.schedule), wants, self.dtype)
