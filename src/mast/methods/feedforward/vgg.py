"""The two networks of AdaIN (Huang and Belongie 2017, https://arxiv.org/abs/1703.06868): the normalised
VGG-19, through which AdaAttN and StyleMixer look as well, and the decoder that mirrors it.

Modules stand at the numbers they have in the authors' files, so that every name can be checked.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor, nn

from ...job import InputError
from ...weights.checkpoints import find_checkpoint, load_checked, read_checkpoint

CHANNELS = {"relu1_1": 64, "relu2_1": 128, "relu3_1": 256, "relu4_1": 512, "relu5_1": 512}
STAGES = ((64, 64), (128, 128), (256,) * 4, (512,) * 4, (512,) * 4)  # convolutions between two poolings
LAYERS = {"relu1_1": 3, "relu2_1": 10, "relu3_1": 17, "relu4_1": 30, "relu5_1": 43}  # name: module
MIRRORED = ((256,), (256, 256, 256, 128), (128, 64), (64,))  # the decoder's, between two enlargements


class Vgg(nn.Sequential):
    """VGG-19 to relu5_4 with reflected borders, its weights scaled so that activations are about 1.

    The first module, a 1x1 convolution, turns RGB in [0, 1] into the BGR around ImageNet's mean that VGG was
    trained on: pictures go in as they are. Poolings round up, so every size goes in, but tiny ones.
    """

    def __init__(self) -> None:
        modules: list[nn.Module] = [nn.Conv2d(3, 3, 1)]
        entering = 3
        for stage, widths in enumerate(STAGES):
            if stage:
                modules.append(nn.MaxPool2d(2, 2, ceil_mode=True))
            for width in widths:
                modules += [nn.ReflectionPad2d(1), nn.Conv2d(entering, width, 3), nn.ReLU()]
                entering = width
        super().__init__(*modules)

    def maps(self, picture: Tensor, last: str = "relu5_1") -> dict[str, Tensor]:
        """picture (b, 3, h, w) in [0, 1] -> {"relu1_1": (b, 64, h, w), "relu2_1": (b, 128, h/2, w/2), ...}
        as far as `last`, halves rounded up; nothing behind `last` is computed.
        """
        refuse_tiny(picture, 2 ** list(LAYERS).index(last))
        names = {module: name for name, module in LAYERS.items() if module <= LAYERS[last]}
        found: dict[str, Tensor] = {}
        for number, module in enumerate(self):
            picture = module(picture)
            if number in names:
                found[names[number]] = picture
            if number == LAYERS[last]:
                break
        return found


def refuse_tiny(picture: Tensor, cell: int) -> None:
    """Reflected borders need two cells of this many pixels, or a part of the second; (b, 3, h, w)."""
    height, width = picture.shape[-2:]
    if min(height, width) <= cell:
        raise InputError(
            f"a picture of {width}x{height} px is too small for this network, which needs {cell + 1} px or "
            "more on each side; work at a larger --size, or crop the picture to a less narrow one"
        )


class VGGDecoder(nn.Sequential):
    """AdaIN's way back from relu4_1: features (b, 512, h, w) -> picture (b, 3, 8h, 8w), about [0, 1]."""

    def __init__(self) -> None:
        modules: list[nn.Module] = []
        entering = CHANNELS["relu4_1"]
        for stage, widths in enumerate(MIRRORED):
            if stage:
                modules.append(nn.Upsample(scale_factor=2, mode="nearest"))
            for width in widths:
                modules += [nn.ReflectionPad2d(1), nn.Conv2d(entering, width, 3), nn.ReLU()]
                entering = width
        super().__init__(*modules, nn.ReflectionPad2d(1), nn.Conv2d(entering, 3, 3))


def load_vgg(given: str | os.PathLike[str] | None = None) -> Vgg:
    """The authors' encoder: from a file of any name, from a folder, or from where `mast weights` puts it."""
    what = "AdaIN's normalised VGG-19 encoder"
    if given is not None and Path(given).is_file():
        path = Path(given)
    else:
        # The authors write "normalised", the package in the registry "normalized".
        files = ("vgg_normalized.pth", "vgg_normalised.pth")
        path = find_checkpoint(given, files, what, "run `mast weights fetch adain-vgg`")
    network = Vgg()
    load_checked(network, read_checkpoint(path), path, what)
    return network.eval()


def load_decoder(given: str | os.PathLike[str] | None = None) -> VGGDecoder:
    """The authors' decoder: from a folder, or from where `mast weights` puts it."""
    what = "AdaIN's decoder"
    path = find_checkpoint(given, ("decoder.pth",), what, "run `mast weights fetch adain-decoder`")
    network = VGGDecoder()
    load_checked(network, read_checkpoint(path), path, what)
    return network.eval()
