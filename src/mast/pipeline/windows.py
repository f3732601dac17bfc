"""When a level is painted in windows, and how large they are.

A pass over the whole picture holds maps of all its cells, and an autoencoder maps of all its pixels. Where
that would not fit into half of the free memory, the U-Net sees the picture in overlapping windows
(core/windows.py, methods/windowed.py), and so does an autoencoder that cannot be tiled exactly. What is held
then depends on the window, not on the picture.
"""

from __future__ import annotations

import torch

from ..backbone.backbone import Backbone
from ..core.windows import Windows
from ..features.recording import available_memory, bytes_needed
from ..job import InputError, Settings
from ..methods.method import DiffusionMethod
from .prepare import Prepared

Grid = tuple[int, int]

WORKSPACE = 64  # float32 maps at the latent's size and the U-Net's first width that one latent's pass holds
DECODING = 8  # float32 maps at the picture's size and the autoencoder's first width that decoding holds


def bytes_at_once(backbone: Backbone, method: DiffusionMethod, size: tuple[int, int], styles: int) -> int:
    """About what is held while (w, h) pixels are painted in one pass, with as many styles of that size, the
    features of one timestep at a time.
    """
    latent = size[1] // backbone.latent_stride, size[0] // backbone.latent_stride
    cells = latent[0] * latent[1]
    wants = [method.content_features, *[method.style_features] * styles]
    features = sum(bytes_needed(backbone.sites, latent, 1, want, torch.float32) for want in wants)
    passing = WORKSPACE * 4 * backbone.unet.config.block_out_channels[0] * cells
    vae = getattr(backbone.autoencoder, "vae", None)
    width = 0 if vae is None else vae.config.block_out_channels[0]
    return max(passing + features, DECODING * 4 * width * cells * backbone.latent_stride**2)


def free_bytes(device: torch.device) -> int:
    """Where the model computes."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_memory()


def fits_at_once(backbone: Backbone, method: DiffusionMethod, size: tuple[int, int], styles: int) -> bool:
    """Whether (w, h) pixels can be painted in one pass."""
    return bytes_at_once(backbone, method, size, styles) <= free_bytes(backbone.device) // 2


def settled_windows(
    settings: Settings, method: DiffusionMethod, backbone: Backbone, canvas: tuple[int, int], styles: int
) -> int | str:
    """The side of the windows in pixels, in whole strides, or "off" where none are needed.

    canvas: (w, h) of the largest level. "auto": twice the model's own size, or its own where memory is
    shorter still, and none where the level fits as a whole.
    """
    if settings.windows == "off":
        return "off"
    if settings.windows == "auto":
        if not method.works_in_windows or fits_at_once(backbone, method, canvas, styles):
            return "off"
        double, own = (_in_strides(times * backbone.native_size, backbone.stride) for times in (2, 1))
        side = double if fits_at_once(backbone, method, (double, double), styles) else own
    else:
        side = _in_strides(settings.windows, backbone.stride)
    if side >= max(canvas):
        return "off"
    if not method.works_in_windows:
        raise InputError(
            f"{method.name} looks at the whole picture at once and cannot paint it in windows of {side} px; "
            "give --windows off, and a smaller --size where memory is short"
        )
    return side


def _in_strides(pixels: int, stride: int) -> int:
    """At least two: windows must overlap by one."""
    return max(2, -(-pixels // stride)) * stride


def windows_on(latent: Grid, settings: Settings, backbone: Backbone) -> Windows | None:
    """The windows on a level's latent (h, w); None where it is painted whole. settings: settled."""
    stride = backbone.latent_stride
    if not isinstance(settings.windows, int) or settings.windows >= max(latent) * stride:
        return None
    return Windows(latent, settings.windows // stride, backbone.stride // stride)


def window_notes(
    ready: Prepared, windows: Windows | None, method: DiffusionMethod, backbone: Backbone
) -> list[str]:
    """Says that a picture is painted in windows, or that it may not fit into memory without them."""
    size, count = ready.settings.size, len(ready.styles)
    if windows is not None:
        side = ready.settings.windows
        return [f"{size} px are painted in {len(windows)} overlapping windows of {side} px"]
    if fits_at_once(backbone, method, ready.canvas, count):
        return []
    about = bytes_at_once(backbone, method, ready.canvas, count) / 2**30
    side = _in_strides(2 * backbone.native_size, backbone.stride)
    way_out = f"--windows {side}" if method.works_in_windows else "a smaller --size"
    return [f"painting {size} px at once takes about {about:.1f} GB; {way_out} takes less"]
