"""Regions from masks, maps and annotations: each format read as it is meant, the rest refused in words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mast.job import InputError
from mast.regions.labels import read_labels, read_segmentations
from mast.regions.matlab import read_mat
from mast.regions.partition import NamedMasks
from mast.regions.show import colour_map, save_folder
from mast.regions.sources import LabelSource
from tests.regions.thirds import COLOURS, PHOTO, H, W, assert_thirds, bsds, read, save, thirds
from tests.tiny import picture

# ------------------------------------------------------------ masks


@pytest.mark.parametrize("kind", ["8 bit", "16 bit", "bool", "01", "alpha", "palette", "rgb", "jpeg"])
def test_a_mask_of_any_kind_is_one_region(tmp_path: Path, kind: str) -> None:
    hard = (thirds() == 1).astype(np.uint8)
    path = tmp_path / ("middle.jpg" if kind == "jpeg" else "middle.png")
    if kind == "8 bit":
        save(hard * 255, path)
    elif kind == "16 bit":
        save(hard.astype(np.uint16) * 65535, path)
    elif kind == "bool":
        Image.fromarray(hard * 255).convert("1").save(path)
    elif kind == "01":
        save(hard, path)
    elif kind == "alpha":
        save(np.stack([hard * 0 + 200, hard * 0 + 30, hard * 0, hard * 255], -1), path)
    elif kind == "palette":
        Image.fromarray(hard * 255).convert("P").save(path)
    else:
        save(np.stack([hard * 255] * 3, -1), path)
    if kind == "alpha":  # one colour on a transparent ground: a map of that colour
        assert np.array_equal(read(path).masks[0] > 0.5, hard > 0) and len(read(path).names) == 1
        return
    found = read(path)
    assert found.names == ("middle",)
    assert np.abs(found.masks[0] - hard).max() < (0.1 if kind == "jpeg" else 1e-6)


@pytest.mark.parametrize("deep", [False, True])
def test_a_soft_mask_stays_soft_and_is_no_label_map(tmp_path: Path, deep: bool) -> None:
    ramp = np.linspace(0, 1, W)[None].repeat(H, 0)
    levels = (ramp * 65535).astype(np.uint16) if deep else (ramp * 255).round().astype(np.uint8)
    found = read(save(levels, tmp_path / "photo-ramp.png"))
    assert found.names == ("ramp",)  # without the photo's name before it
    assert np.abs(found.masks[0] - ramp).max() < 0.01


def test_a_mask_of_another_size_is_fitted_and_of_another_shape_refused(tmp_path: Path) -> None:
    large = save(np.kron((thirds() == 1), np.ones((2, 2))).astype(np.uint8) * 255, tmp_path / "m.png")
    assert read(large).masks.shape == (1, H, W)
    with pytest.raises(InputError, match=r"m: the mask is 96x64, the photo 64x64"):
        read(large, size=(64, 64))


def test_several_sources_and_names_that_come_twice(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one = save((thirds() == 1).astype(np.uint8) * 255, tmp_path / "cat.png")
    two = save((thirds() == 2).astype(np.uint8) * 255, tmp_path / "b" / "cat.png")
    assert_thirds(read(one, two), ("cat", "cat-2"))
    with pytest.raises(InputError, match="no regions given"):
        read()


def test_a_folder_of_masks(tmp_path: Path) -> None:
    for name in ("background", "sky", "tree"):
        save((thirds() == len(name) % 3).astype(np.uint8) * 255, tmp_path / f"{name}.png")
    picture(W, H, 1).save(tmp_path / "view.png")
    notes: list[str] = []
    assert read(tmp_path, notes=notes).names == ("sky", "tree", "background")
    assert notes == [f"{tmp_path / 'view.png'}: a picture in colours, not a mask; left out"]
    save((thirds() == 1).astype(np.uint8) * 255, tmp_path / "photo-eye.png")
    assert read(tmp_path).names == ("eye",)  # the others belong to other photos
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: no masks in it"):
        read(tmp_path / "empty")


def test_what_we_write_we_read(tmp_path: Path) -> None:
    masks = np.stack([thirds() == 0, thirds() == 1, thirds() == 2]).astype(np.float32)
    masks[0, :, 14:18], masks[1, :, 14:18] = 0.25, 0.75
    regions = NamedMasks(("a cat", "../b", "background"), masks)
    photo = picture(W, H, 1)
    files = save_folder(tmp_path / "out", photo, regions)
    assert [file.name for file in files] == ["a-cat.png", "b.png", "background.png", "map.png", "overlay.png"]
    notes: list[str] = []
    found = read(tmp_path / "out", notes=notes)
    assert found.names == ("a-cat", "b", "background") and notes == []
    assert np.abs(found.masks - masks).max() < 1 / 255
    again = read(tmp_path / "out" / "map.png")
    assert len(again.names) == 3 and np.array_equal(again.masks.sum(0), np.ones((H, W)))


# ------------------------------------------------------------ maps


@pytest.mark.parametrize("kind", ["rgb", "palette", "jpeg", "antialiased", "transparent"])
def test_a_colour_map_has_a_region_for_each_colour_but_black(tmp_path: Path, kind: str) -> None:
    image = Image.fromarray(COLOURS[thirds()])
    path = tmp_path / "map.png"
    if kind == "palette":
        image = image.quantize(8)
    elif kind == "jpeg":
        path = tmp_path / "map.jpg"
    elif kind == "antialiased":
        image = image.resize((4 * W, 4 * H), Image.Resampling.NEAREST).resize(
            (W, H), Image.Resampling.LANCZOS
        )
    elif kind == "transparent":
        image.putalpha(Image.fromarray((thirds() > 0).astype(np.uint8) * 255))
    image.save(path)
    found = read(path)
    assert len(found.names) == 2
    if kind != "jpeg":
        assert set(found.names) == {"#e69f00", "#56b4e9"}
    order = np.argsort([mask.argmax() for mask in found.masks])  # by where each begins
    wrong = [np.abs(found.masks[i] - (thirds() == n)).mean() for i, n in zip(order, (1, 2), strict=True)]
    assert max(wrong) <= (0.03 if kind in ("jpeg", "antialiased") else 0)


def test_one_colour_of_a_map(tmp_path: Path) -> None:
    path = save(COLOURS[thirds()], tmp_path / "map.png")
    found = read(f"{path}#56B4E9")
    assert found.names == ("#56b4e9",) and np.array_equal(found.masks[0], thirds() == 2)


@pytest.mark.parametrize("kind", ["8 bit", "16 bit", "int16.npy", "uint64.npy", "tif", "mat"])
def test_numbers_are_regions(tmp_path: Path, kind: str) -> None:
    labels = np.array([0, 5, 12])[thirds()]
    path = tmp_path / "labels.png"
    if kind == "8 bit":
        save(labels.astype(np.uint8), path)
    elif kind == "16 bit":
        labels = labels * 3000
        save(labels.astype(np.uint16), path)
    elif kind == "tif":
        path = save(labels.astype(np.int32), tmp_path / "labels.tif")
    elif kind == "mat":
        path = bsds(tmp_path / "labels.mat", [labels])
    else:
        path = tmp_path / "labels.npy"
        scale = np.uint64(2**60) if kind.startswith("uint64") else np.uint64(1)
        np.save(path, (labels.astype(np.uint64) * scale).astype(kind.split(".")[0]))
    found = read(path)
    assert_thirds(
        found,
        ("label-1", "label-2")
        if kind == "uint64.npy"
        else tuple(f"label-{v}" for v in np.unique(labels)[1:]),
    )


def test_a_soft_array_is_one_mask(tmp_path: Path) -> None:
    np.save(tmp_path / "soft.npy", (thirds() / 2).astype(np.float64))
    assert read(tmp_path / "soft.npy").names == ("soft",)
    np.save(tmp_path / "wild.npy", thirds() * np.nan)
    with pytest.raises(InputError, match=r"wild|mask"):
        read(tmp_path / "wild.npy")


def test_bsds_has_a_map_of_each_person(tmp_path: Path) -> None:
    path = bsds(tmp_path / "photo.mat", [thirds() + 1, (thirds() > 0) + 1])
    one, two = read_segmentations(path)
    assert np.array_equal(one, thirds() + 1) and np.array_equal(two, (thirds() > 0) + 1)
    made = LabelSource(tmp_path).objects(PHOTO, (W, H))
    assert [found.name for found in made.found] == ["label-1", "label-2", "label-3"]


def test_other_mat_files(tmp_path: Path) -> None:
    from scipy.io import savemat

    savemat(tmp_path / "plain.mat", {"labels": thirds().astype(np.uint8)})
    assert np.array_equal(read_labels(tmp_path / "plain.mat"), thirds())
    savemat(tmp_path / "none.mat", {"x": 1.5, "words": "abc"})
    with pytest.raises(InputError, match=r"none\.mat: holds no segmentation"):
        read_labels(tmp_path / "none.mat")
    (tmp_path / "bad.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\x01" * 200)
    with pytest.raises(InputError, match=r"bad\.mat"):
        read_labels(tmp_path / "bad.mat")


@pytest.mark.parametrize("packed", [False, True])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_a_mat_file_is_what_scipy_wrote(tmp_path: Path, packed: bool, seed: int) -> None:
    from scipy.io import savemat

    rng = np.random.default_rng(seed)
    kind = rng.choice(["u1", "i2", "u2", "i4", "u4", "i8", "u8", "f8", "f4"])
    array = rng.integers(0, 100, rng.integers(1, 9, rng.integers(2, 4))).astype(kind)
    entry = np.empty((1, 2), [("name", object), ("inside", object)])
    entry[0, 0], entry[0, 1] = ("a", array), ("b", array + 1)
    values = {"plain": array, "cells": np.array([[array, "word"]], object), "structure": entry}
    savemat(tmp_path / "x.mat", values, do_compression=packed)
    plain, cells, structure = read_mat(tmp_path / "x.mat")
    assert np.array_equal(plain, array) and plain.dtype.kind == array.dtype.kind
    assert np.array_equal(cells[0], array) and cells[1] is None
    assert [one["inside"].tolist() for one in structure] == [array.tolist(), (array + 1).tolist()]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: save(np.full((H, W, 3), (200, 30, 30), np.uint8), p), "one colour everywhere"),
        (lambda p: save(np.full((H, W), 255, np.uint8), p), "one colour everywhere"),
        (lambda p: save(np.full((H, W), 0, np.uint8), p), "empty (all black)"),
        (lambda p: picture(W, H, 3).save(p), "a picture and no map"),
        (lambda p: save(np.random.default_rng(0).integers(0, 256, (H, W, 3), np.uint8), p), "a picture"),
        (lambda p: p.write_bytes(b""), "empty"),
        (lambda p: None, "no such file"),
    ],
)  # fmt: skip
def test_pictures_that_are_no_regions(tmp_path: Path, make: Callable[[Path], object], words: str) -> None:
    path = tmp_path / "x.png"
    make(path)
    with pytest.raises(InputError, match=re.escape(words)):
        read(path)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((H, W), int), "one number everywhere (0)"),
        (np.full((H, W), 4), "one number everywhere (4)"),
        (np.arange(H * W).reshape(H, W), "1 to 64 regions"),
        (np.zeros((H, W, 3), int), "a map has rows and columns"),
        (np.zeros(0, int), "a map has rows and columns"),
        (np.zeros((H, W), complex), "whole numbers"),
        (np.array([["a"]]), "whole numbers"),
    ],
)
def test_arrays_that_are_no_maps(tmp_path: Path, array: np.ndarray, words: str) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InputError, match=re.escape(words)):
        read(tmp_path / "x.npy")


def test_no_pickle_is_ever_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[{"a": 1}]], object), allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy: not a NumPy array of numbers"):
        read(tmp_path / "x.npy")


# ------------------------------------------------------------ annotations


def test_coco_objects_and_crowds(tmp_path: Path) -> None:
    box = [[16, 0, 32, 0, 32, 32, 16, 32]]
    crowd = {"size": [H, W], "counts": [32 * H, 16 * H]}
    data = {
        "images": [{"id": 1, "file_name": "x/photo.jpg", "width": W, "height": H}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 3, "segmentation": box},
            {"id": 2, "image_id": 1, "category_id": 3, "iscrowd": 1, "segmentation": crowd},
        ],
    }
    path = tmp_path / "instances.json"
    path.write_text(json.dumps(data))
    assert_thirds(read(path), ("cat", "cat-crowd"))
    with pytest.raises(InputError, match="annotated at 48x32"):
        read(path, size=(W, H + 1))
    path.write_text(json.dumps({**data, "annotations": []}))
    with pytest.raises(InputError, match=r"photo\.jpg has no annotation in it"):
        read(path)


def test_a_colour_map_of_all_our_colours_is_read_again(tmp_path: Path) -> None:
    labels = np.arange(16).repeat(3)[None].repeat(H, 0)
    masks = (labels[None] == np.arange(16)[:, None, None]).astype(np.float32)
    colour_map(NamedMasks(tuple(map(str, range(16))), masks)).save(tmp_path / "map.png")
    found = read(tmp_path / "map.png")
    assert len(found.names) == 16
    assert {mask.tobytes() for mask in found.masks} == {mask.tobytes() for mask in masks}
