"""Layered files, and damaged files of every kind."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError
from mast.regions.partition import NamedMasks
from tests.regions.thirds import COLOURS, H, W, assert_thirds, bsds, read, save, thirds
from tests.tiny import picture

# ------------------------------------------------------------ layers


def painted(number: int) -> Image.Image:
    """Photo-like pixels where the map has a number, nothing elsewhere."""
    image = picture(W, H, number).convert("RGBA")
    image.putalpha(Image.fromarray((thirds() == number).astype(np.uint8) * 255))
    return image


def write_psd(path: Path) -> Path:
    """The photo, a layer, a group of a part of a layer, something hidden and something empty."""
    from psd_tools import PSDImage

    file = PSDImage.new("RGB", (W, H))
    file.create_pixel_layer(picture(W, H, 0), name="the photo")
    file.create_pixel_layer(painted(1).crop((10, 4, 40, 32)), name="cät", top=4, left=10)
    top = file.create_pixel_layer(painted(2), name="paw")
    file.create_group([top], name="dog")
    hidden = file.create_pixel_layer(painted(1), name="hidden")
    hidden.visible = False
    file.save(path)
    return path


def test_photoshop_layers_and_groups(tmp_path: Path) -> None:
    notes: list[str] = []
    found = read(write_psd(tmp_path / "art.psd"), notes=notes)
    assert found.names == ("dog", "cät")
    assert np.array_equal(found.masks[0], thirds() == 2)
    middle = thirds() == 1
    middle[:4] = False
    assert np.array_equal(found.masks[1], middle)
    assert notes == [
        f"{tmp_path / 'art.psd'}: layer 'the photo' covers everything; it is taken for the photo itself"
    ]


def test_a_photoshop_mask_cuts_its_layer(tmp_path: Path) -> None:
    from psd_tools import PSDImage

    file = PSDImage.new("RGB", (W, H))
    layer = file.create_pixel_layer(picture(W, H, 0), name="sky")
    layer.create_mask(Image.fromarray((thirds() == 2).astype(np.uint8) * 255))
    file.save(tmp_path / "art.psd")
    found = read(tmp_path / "art.psd")
    assert found.names == ("sky",) and np.array_equal(found.masks[0], thirds() == 2)


def test_a_photoshop_file_without_layers(tmp_path: Path) -> None:
    from psd_tools import PSDImage

    PSDImage.new("RGB", (W, H)).save(tmp_path / "flat.psd")
    with pytest.raises(
        InputError, match=r"flat\.psd: no layer can be a region \(it has none\); paint every region"
    ):
        read(tmp_path / "flat.psd")


def write_ora(path: Path, stack: str, layers: dict[str, Image.Image]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "image/openraster")
        archive.writestr("stack.xml", stack)
        for name, image in layers.items():
            data = io.BytesIO()
            image.save(data, "PNG")
            archive.writestr(f"data/{name}.png", data.getvalue())
    return path


STACK = f"""<?xml version="1.0"?><image w="{W}" h="{H}"><stack>
  <stack name="dog"><layer name="paw" src="data/right.png" x="32" y="0"/></stack>
  <layer name="cat &amp; co" src="data/middle.png" x="16" y="0"/>
  <layer name="off" src="data/middle.png" visibility="hidden"/>
  <layer name="photo" src="data/photo.png"/>
</stack></image>"""


def ora_layers() -> dict[str, Image.Image]:
    part = Image.new("RGBA", (16, H), "red")
    return {"right": part, "middle": part, "photo": picture(W, H, 0)}


def test_openraster_layers_and_groups(tmp_path: Path) -> None:
    found = read(write_ora(tmp_path / "art.ora", STACK, ora_layers()))
    assert_thirds(NamedMasks(found.names[::-1], found.masks[::-1]), ("cat & co", "dog"))


def test_a_drawn_mask_as_an_opaque_layer(tmp_path: Path) -> None:
    stack = f'<image w="{W}" h="{H}"><stack><layer name="m" src="data/m.png"/></stack></image>'
    mask = Image.fromarray((thirds() == 1).astype(np.uint8) * 255)
    found = read(write_ora(tmp_path / "art.ora", stack, {"m": mask}))
    assert found.names == ("m",) and np.array_equal(found.masks[0], thirds() == 1)


def test_everything_in_one_group_is_its_layers(tmp_path: Path) -> None:
    stack = STACK.replace("<stack>\n", '<stack><stack name="all">', 1).replace(
        "</stack></image>", "</stack></stack></image>"
    )
    assert read(write_ora(tmp_path / "art.ora", stack, ora_layers())).names == ("dog", "cat & co")


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("<image w='8' h='8'><stack/></image>", "no layer can be a region (it has none)"),
        ("<image w='8' h='8'/>", "it has none"),
        ("<image w='99999999' h='99999999'><stack/></image>", "a canvas of 99999999x99999999"),
        ("<image w='x' h='8'><stack/></image>", "not an OpenRaster file, or damaged"),
        ("<image", "damaged"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><image w='8' h='8'><stack/></image>", "defines entities"),
        ("<image w='8' h='8'><stack><layer src='../../etc/passwd'/></stack></image>", "damaged"),
        ("<image w='8' h='8'><stack>" + "<layer src='a'/>" * 300 + "</stack></image>", "300 layers"),
        ("<image w='8' h='8'>" + "<stack>" * 5000 + "</stack>" * 5000 + "</image>", "no layer|damaged"),
        (STACK.replace("data/middle.png", "data/photo.png"), None),
    ],
)
def test_layered_files_that_cannot_be_used(tmp_path: Path, stack: str, words: str | None) -> None:
    path = write_ora(tmp_path / "x.ora", stack, ora_layers())
    if words is None:
        assert read(path).names[0] == "dog"
        return
    with pytest.raises(InputError, match=words if "|" in words else re.escape(words)) as caught:
        read(path)
    assert "x.ora" in str(caught.value)


# ------------------------------------------------------------ damaged


@pytest.mark.parametrize("suffix", [".psd", ".ora", ".mat", ".npy", ".json", ".png"])
def test_damaged_files_of_every_kind_are_refused_by_name(tmp_path: Path, suffix: str) -> None:
    whole = {
        ".psd": lambda p: write_psd(p),
        ".ora": lambda p: write_ora(p, STACK, ora_layers()),
        ".mat": lambda p: bsds(p, [thirds()]),
        ".npy": lambda p: np.save(p, thirds()),
        ".json": lambda p: p.write_text("{}"),
        ".png": lambda p: save(COLOURS[thirds()], p),
    }
    path = tmp_path / f"x{suffix}"
    whole[suffix](path)
    data = path.read_bytes()
    for cut in (0, 1, 10, len(data) // 3, len(data) // 2):
        path.write_bytes(data[:cut])
        with pytest.raises(InputError, match=r"x\."):
            read(path)
    path.unlink()
    with pytest.raises(InputError, match=r"x\."):
        read(path)


@pytest.mark.parametrize("suffix", [".psd", ".ora", ".mat", ".npy", ".json", ".png"])
@given(data=st.binary(max_size=300))
@settings(max_examples=25)
def test_any_bytes_are_regions_or_refused(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        read(path)


@pytest.mark.parametrize("suffix", [".psd", ".ora", ".mat", ".npy"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_any_flipped_bytes_are_regions_or_refused(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path = folder / f"x{suffix}"
    make = {
        ".psd": lambda: write_psd(path),
        ".ora": lambda: write_ora(path, STACK, ora_layers()),
        ".mat": lambda: bsds(path, [thirds()]),
        ".npy": lambda: np.save(path, thirds()),
    }
    make[suffix]()
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(seed)
    for at in rng.integers(0, len(data), rng.integers(1, 8)):
        data[at] = rng.integers(256)
    path.write_bytes(bytes(data))
    with contextlib.suppress(InputError):
        found = read(path)
        assert found.masks.shape[1:] == (H, W) and found.masks.min() >= 0 and found.masks.max() <= 1


@pytest.mark.parametrize(("suffix", "module"), [(".psd", "psd_tools")])
def test_without_its_package_a_format_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, module: str
) -> None:
    (tmp_path / f"x{suffix}").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'mast\[segment\]'"):
        read(tmp_path / f"x{suffix}")
