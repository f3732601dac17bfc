"""One region of a source by its name: SOURCE#NAME reads what `read_regions` lists under that name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mast.images import read_mask
from mast.job import InputError
from mast.regions.parts import read_part, split_part
from mast.regions.specs import parse_region
from tests.regions.test_layers import write_psd
from tests.regions.thirds import COLOURS, PHOTO, H, W, bsds, read, save, thirds


def part(source: object) -> np.ndarray:
    return read_part(str(source), PHOTO, (W, H), "mask")


def sources(folder: Path) -> list[Path]:
    np.save(folder / "labels.npy", thirds())
    return [
        write_psd(folder / "art.psd"),
        bsds(folder / "drawn.mat", [thirds()]),
        folder / "labels.npy",
        save((thirds() * 7).astype(np.uint8), folder / "labels.png"),
    ]


def test_every_region_that_is_listed_can_be_named(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        listed = read(source)
        assert len(listed.names) == 2
        for name, mask in zip(listed.names, listed.masks, strict=True):
            assert split_part(f"{source}#{name}") == (source, name)
            assert np.array_equal(part(f"{source}#{name}"), mask)


def test_a_colour_is_a_name_as_ever(tmp_path: Path) -> None:
    path = save(COLOURS[thirds()], tmp_path / "map.png")
    assert split_part(f"{path}#56b4e9") == (path, "56b4e9")
    assert np.array_equal(part(f"{path}#56b4e9"), read_mask(f"{path}#56b4e9"))


def test_a_source_with_one_region_needs_no_name(tmp_path: Path) -> None:
    np.save(tmp_path / "soft.npy", (thirds() / 2).astype(np.float32))
    assert np.array_equal(part(tmp_path / "soft.npy"), thirds() / 2)
    np.save(tmp_path / "hard.npy", (thirds() == 1).astype(np.uint8))
    assert np.array_equal(part(tmp_path / "hard.npy"), thirds() == 1)


def test_a_file_whose_name_holds_the_sign_is_a_file(tmp_path: Path) -> None:
    path = save((thirds() == 1).astype(np.uint8) * 255, tmp_path / "a#b.png")
    assert split_part(path) == (path, None)
    assert np.array_equal(part(path), thirds() == 1)
    assert split_part(f"{tmp_path}/gone.png#sky")[1] is None


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    psd = write_psd(tmp_path / "art.psd")
    with pytest.raises(InputError, match=r"art\.psd: has 2 regions, and none is called 'dag'; did you"):
        part(f"{psd}#dag")
    with pytest.raises(InputError, match=r"one must be named; write art\.psd#NAME \(there are dog, cät\)"):
        part(psd)
    with pytest.raises(InputError, match=r"gone\.psd: no such file"):
        part(tmp_path / "gone.psd")


def test_regions_on_the_command_line_name_parts(tmp_path: Path) -> None:
    psd = write_psd(tmp_path / "art.psd")
    style = save(COLOURS[thirds()], tmp_path / "style.png")
    region = parse_region(f"{psd}#dog={style}@0.5")
    assert (region.mask, region.style, region.strength) == (f"{psd}#dog", str(style), 0.5)
