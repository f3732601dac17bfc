"""What a method is. Two kinds paint: a diffusion method controls a frozen U-Net while it denoises, a
feed-forward one (feedforward/network.py) brings networks of its own. `Method` is what both are.

Most diffusion methods only say `start`, `attend` and `residual`; the loop is theirs for free. One that
optimises a latent, or pulls it somewhere after each step, overrides `sample` or `after_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbone.backbone import Backbone
from ..backbone.instrument import controlled
from ..backbone.sites import Site
from ..core import ddim
from ..features.inversion import Trajectory
from ..features.recording import FeatureSource, SiteFeatures, StepFeatures
from ..job import InputError

Grid: TypeAlias = tuple[int, int]


@dataclass
class Reference:
    """One picture the method may look at: its trajectory, its features, and which part of it counts.

    keep: by grid, the indices of the keys that a style mask leaves; weight: that mask (h, w) at latent size.
    """

    trajectory: Trajectory
    source: FeatureSource | None = None
    keep: Mapping[tuple[int, int], Tensor] = field(default_factory=dict)
    weight: Tensor | None = None
    latent: tuple[int, int] = (0, 0)

    def at(self, step: int, device: torch.device) -> StepFeatures:
        """Its features at a timestep, as they are brought to a device."""
        seen = self.source.features(step) if self.source else {}
        return StepFeatures(seen, device, self.keep, self.latent)


@dataclass(frozen=True)
class TakenUp:
    """Where a run goes on from: the clean latent (1, c, h, w) of a picture, and the same at the last timestep
    of the schedule, with the noise of the photo's inversion.
    """

    clean: Tensor
    noisy: Tensor


@dataclass
class Scene:
    """All that a method sees while it samples. `set_step` sets the clock; the rest never changes.

    masks: by grid, the regions' masks (N, h, w), strength included; the latent's own grid is one of them.
    taken_up: a picture of the same photo, painted at a smaller size, to go on from instead of `start`.
    on_window: where a prediction takes several passes, told the step after each but the last, which the step
    itself reports.
    """

    backbone: Backbone
    schedule: ddim.Schedule
    content: Reference
    styles: Sequence[Reference]
    masks: Mapping[tuple[int, int], Tensor]
    latent: tuple[int, int]
    taken_up: TakenUp | None = None
    on_window: Callable[[int], None] | None = None
    step: int = -1
    _content: StepFeatures | None = field(default=None, repr=False)
    _styles: Sequence[StepFeatures] = field(default_factory=list, repr=False)

    def set_step(self, step: int, same_photo: Scene | None = None) -> None:
        """Moves the clock to a timestep and fetches its features; the photo's from another scene of the same
        photo, where there is one.
        """
        self.step = step
        device = self.backbone.device
        self._content = same_photo._content if same_photo is not None else self.content.at(step, device)
        self._styles = [style.at(step, device) for style in self.styles]

    @property
    def passes(self) -> int:
        """How many passes of the U-Net a prediction takes."""
        return 1

    def predict(self, method: DiffusionMethod, latent: Tensor, step: int) -> Tensor:
        """What the U-Net says of a latent (1, c, h, w) at a timestep, under a method's control."""
        self.set_step(step)  # may itself run the U-Net, so not under the method's control
        with controlled(self.backbone.unet, self.backbone.sites, InScene(method, self)):
            return self.backbone.predict(latent, self.schedule.timesteps[step])

    def content_at(self, site: Site) -> SiteFeatures:
        assert self._content is not None, "set_step comes first"
        return self._content.at(site)

    def styles_at(self, site: Site) -> list[SiteFeatures]:
        return [style.at(site) for style in self._styles]

    def masks_at(self, site: Site) -> Tensor:
        """(N, tokens) on the site's grid."""
        return self.masks[site.grid(self.latent)].flatten(1)

    def alone(self, index: int, whole: bool) -> Scene:
        """The scene of one region by itself; `whole` lets its style have the whole photo."""
        masks = {grid: mask[index : index + 1] for grid, mask in self.masks.items()}
        if whole:
            masks = {grid: torch.ones_like(mask) for grid, mask in masks.items()}
        return replace(self, styles=[self.styles[index]], masks=masks)


Family: TypeAlias = Literal["global-single", "regional-single", "regional-multi"]
"""What a method knows of regions. global-single: nothing, it repaints the whole photo in one style.
regional-single: one region and its style. regional-multi: all of them at once. The first two make one
picture per region, and a compositor joins them (App. A.8).
"""

OnDenoise = Callable[[int, Tensor, Tensor], "Tensor | None"]
"""Called after each step with its index into the schedule, the latent, and the clean estimate x0; may
return another latent.
"""


class Method:
    """What every method is, whatever it paints with. Options are the fields of a frozen dataclass."""

    name: ClassVar[str]
    about: ClassVar[str] = ""  # one line on how it works
    family: ClassVar[Family] = "regional-multi"
    needs: ClassVar[str] = ""  # for people: what must be there before it can run
    needs_backbone: ClassVar[bool] = True  # whether that is a diffusion model
    licence: ClassVar[str] = "MIT"  # of the authors' own code, where there is one
    reference: ClassVar[str] = ""  # authors, title, venue
    released_changes: ClassVar[str] = ""  # one line on what `released` changes, where a method has it
    auto: bool = False  # it finds the regions itself; masks on the photo are not used
    released: bool = False  # the authors' published code to the letter, where ours does something else

    def options(self) -> dict[str, Any]:
        """The method's parameters, as a record keeps them and `make` takes them."""
        return {name: getattr(self, name) for name in option_names(type(self))}

    def ready(self, device: torch.device) -> None:
        """Loads what the method itself brings, once, before a run begins; most bring nothing."""

    @property
    def fingerprint(self) -> str | None:
        """Of the weights that the method itself brings; None where it brings none."""
        return None


def option_names(method: type[Method]) -> list[str]:
    """What can be set of a method; a field that begins with _ is its own business."""
    return [f.name for f in fields(method) if f.init and not f.name.startswith("_")]  # type: ignore[arg-type]


def as_released(method: Method) -> Method:
    """The method as its authors' published code runs it; itself where there is no such switch."""
    if "released" not in option_names(type(method)):
        return method
    return replace(method, released=True)  # type: ignore[type-var]


def paints_one_style(method: Method | type[Method]) -> bool:
    """Whether a method makes one picture per region, which a compositor then joins."""
    return method.family != "regional-multi"


class DiffusionMethod(Method):
    """Base of the methods that control a diffusion model: the identity at every site, a start from the
    content's own noise.
    """

    needs = "a diffusion model"
    content_features: frozenset[str] = frozenset()
    style_features: frozenset[str] = frozenset()

    @property
    def plain_loop(self) -> bool:
        """Whether `sample` is the ordinary loop. Only then may several runs be one batch, and may the U-Net
        see a picture window by window (windowed.py): a loop of its own may look at the whole of it.
        """
        return type(self).sample is DiffusionMethod.sample

    @property
    def works_in_windows(self) -> bool:
        """Whether it can paint a picture that the U-Net sees window by window."""
        return self.plain_loop

    def for_model(self, defaults: Mapping[str, Any]) -> DiffusionMethod:
        """The method with what it leaves to the model filled in; defaults: the model's, by method."""
        return self

    def model_notes(self, model: str, calibrated: bool) -> list[str]:
        """What the user should know of this method on a model. calibrated: its sharpness was fitted."""
        return []

    def check(self, backbone: Backbone, latent: Grid, styles: Sequence[Grid]) -> None:
        """Refuses, before the first pass, a model or sizes that it cannot paint with; latent, styles: (h, w)
        of the latents of photo and styles.
        """

    def reported_steps(self, schedule: ddim.Schedule) -> int:
        """How often `sample` reports a step."""
        return len(schedule.moves)

    def denoising_path(self, scene: Scene) -> list[tuple[int, float]]:
        """The timesteps to denoise at, by their index, and the alpha that each leads to."""
        return scene.schedule.moves

    def start(self, scene: Scene) -> Tensor:
        """The latent (1, c, h, w) to denoise from."""
        return scene.content.trajectory.noise

    def attend(self, scene: Scene, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The attention output (1, heads, tokens, d) of a site for the stylized stream."""
        return F.scaled_dot_product_attention(query, key, value)

    def residual(self, scene: Scene, site: Site, branch: Tensor) -> Tensor:
        """What the site's ResBlock adds to its skip feature; branch: (1, c, h, w)."""
        return branch

    def after_step(self, scene: Scene, latent: Tensor) -> Tensor:
        """A last word on the latent (1, c, h, w) that a step has reached; `scene.step` is the step it was
        made at.
        """
        return latent

    @torch.inference_mode()
    def sample(self, scene: Scene, on_step: OnDenoise | None = None) -> Tensor:
        """Denoises from the last timestep to the clean latent, (1, c, h, w)."""
        schedule = scene.schedule
        z = self.start(scene) if scene.taken_up is None else scene.taken_up.noisy
        for i, to in self.denoising_path(scene):
            prediction = scene.predict(self, z, i)
            z, x0 = ddim.move(z, prediction, schedule.alphas[i], to, schedule.prediction_type)
            z = self.after_step(scene, z)
            if on_step is not None:
                changed = on_step(i, z, x0)
                z = z if changed is None else changed
        return z


class InScene:
    """A method as the control of one run."""

    def __init__(self, method: DiffusionMethod, scene: Scene):
        self.method, self.scene = method, scene

    def attend(self, site: Site, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.method.attend(self.scene, site, query, key, value)

    def residual(self, site: Site, branch: Tensor) -> Tensor:
        return self.method.residual(self.scene, site, branch)


def unit_interval(name: str, value: float, low_open: bool = False) -> None:
    """Refuses a parameter outside [0, 1], or (0, 1]."""
    if not (0 <= value <= 1) or (low_open and value == 0):
        raise InputError(f"{name} is {value}; it must be {'above 0' if low_open else 'from 0'} and at most 1")
