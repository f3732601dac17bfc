"""A scene too large for one pass: the U-Net sees it window by window, a method as if each were all there is.

There is one latent, and one prediction a step, blended from the windows' (core/windows.py). The photo's
features and the masks are those of the window; the styles are the same in every window. At any time the
features of one window and of the styles are held, however large the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..core.windows import Windows
from .method import DiffusionMethod, Reference, Scene


@dataclass(kw_only=True)
class WindowedScene(Scene):
    """windows: on the latent. views: the photo as each of them shows it; `content` is the whole, without
    features.
    """

    windows: Windows
    views: Sequence[Reference]

    @property
    def passes(self) -> int:
        return len(self.windows)

    def predict(self, method: DiffusionMethod, latent: Tensor, step: int) -> Tensor:
        self.set_step(step)
        return self.windows.blend(self._seen(method, latent, step, i) for i in range(len(self.windows)))

    def _seen(self, method: DiffusionMethod, latent: Tensor, step: int, index: int) -> Tensor:
        """The prediction for one window, (1, c, *windows.size)."""
        if index and self.on_window is not None:
            self.on_window(step)
        windows, view = self.windows, self.views[index]
        shrinks = {1, *(site.shrink for site in self.backbone.sites)}
        masks = {
            (windows.size[0] // shrink, windows.size[1] // shrink): windows.cut(
                self.masks[self.latent[0] // shrink, self.latent[1] // shrink], index, shrink
            )
            for shrink in shrinks
        }
        scene = _OneWindow(self.backbone, self.schedule, view, self.styles, masks, windows.size)
        scene._styles = self._styles
        return scene.predict(method, windows.cut(latent, index), step)


class _OneWindow(Scene):
    """A scene whose styles' features are there already."""

    def set_step(self, step: int, same_photo: Scene | None = None) -> None:
        self.step = step
        self._content = self.content.at(step, self.backbone.device)
