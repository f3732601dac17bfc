"""Inception and LPIPS: shapes, resizing, what loaders refuse; with real weights, the files' own answers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mast.job import InputError
from mast.metrics.inception import InceptionEncoder, load_inception, resize_like_tensorflow
from mast.metrics.lpips import load_lpips
from mast.metrics.store import to_levels
from mast.metrics.structure import load_cfsd
from tests.tiny import picture


def levels(seed: int, width: int = 299, height: int = 299) -> torch.Tensor:
    return to_levels(picture(width, height, seed))


def test_pictures_of_any_size_share_a_batch(random_inception: Path) -> None:
    encoder = load_inception("fid", random_inception)
    maps = encoder.maps([levels(1, 120, 80), levels(2, 64, 200)])
    assert maps.shape == (2, 64, 2048) and encoder.grid == (8, 8)
    torch.testing.assert_close(maps[1], encoder.maps([levels(2, 64, 200)])[0], rtol=1e-3, atol=1e-4)
    assert 0.01 < float(maps.std()) < 1e3


def test_artfids_network_has_a_finer_grid(random_inception: Path) -> None:
    encoder = load_inception("artfid", random_inception)
    assert encoder.maps([levels(1, 512, 512)]).shape == (1, 196, 2048) and encoder.grid == (14, 14)


def test_the_three_conventions_differ(random_inception: Path) -> None:
    image = levels(1, 200, 160)
    fitted = [
        InceptionEncoder(name, random_inception)._fit(image[None])
        for name in ("fid", "pytorch-fid", "artfid")
    ]
    assert [tuple(x.shape[-2:]) for x in fitted] == [(299, 299), (299, 299), (512, 512)]
    assert fitted[0].min() >= -1 and fitted[0].max() <= 127 / 128
    assert not torch.allclose(fitted[0], fitted[1], atol=1e-2)
    assert fitted[2].min() >= 0


def test_tensorflows_resize_puts_the_first_pixel_first() -> None:
    row = torch.tensor([[[[0.0, 10, 20, 30]]]])
    assert resize_like_tensorflow(row, (1, 8)).flatten().tolist() == [0, 5, 10, 15, 20, 25, 30, 30]
    assert resize_like_tensorflow(row, (1, 2)).flatten().tolist() == [0, 20]
    assert torch.equal(resize_like_tensorflow(row, (1, 4)), row)


def test_wrong_files_are_refused(random_inception: Path, random_lpips: Path, tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(InputError, match="not Inception-v3"):
        load_inception("fid", tmp_path / "other.pth").maps([levels(1)])
    with pytest.raises(InputError, match="not VGG-19"):
        load_cfsd("vgg19", tmp_path / "other.pth")
    with pytest.raises(InputError, match="not LPIPS' file for vgg"):
        load_lpips("vgg", random_lpips)
    arrays = pickle.loads(random_lpips.read_bytes())
    del arrays["NetLinLayer_4"]
    (tmp_path / "headless.ckpt").write_bytes(pickle.dumps(arrays))
    with pytest.raises(InputError, match="no linear heads"):
        load_lpips("alex", tmp_path / "headless.ckpt")
    for loader in (load_inception, load_lpips, load_cfsd):
        with pytest.raises(InputError, match="choose one of"):
            loader("resnet")


def test_lpips_is_a_distance_of_pairs(random_lpips: Path) -> None:
    lpips = load_lpips("alex", random_lpips)
    a, b = (torch.stack([levels(i, 80, 64), levels(i + 1, 80, 64)]) / 127.5 - 1 for i in (1, 2))
    assert lpips(a, a).tolist() == [0, 0]
    assert lpips(a, b)[1] == pytest.approx(float(lpips(a[1:], b[1:])), rel=1e-4)
    assert torch.all(lpips(a, b) > 0)
    with pytest.raises(InputError, match="one size"):
        lpips(a, a[..., :-1])


@pytest.mark.slow
def test_inception_answers_as_its_own_file_does(real_weight: Callable[[str], Path]) -> None:
    """The packaged weights are a TorchScript program: run it, and compare on the same pixels."""
    path = real_weight("fid-inception")
    if path.suffix != ".pt":
        pytest.skip("the weights came as a state dict, which has no program to run")
    images = torch.stack([levels(i) for i in (1, 2, 3)])
    with torch.inference_mode():
        theirs = torch.jit.load(str(path)).eval()((images - 128) / 128)
    ours = load_inception("fid", path).maps(list(images)).mean(1)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("net", ["alex", "vgg"])
def test_lpips_orders_distortions(net: str, real_weight: Callable[[str], Path], example_photo: Path) -> None:
    from PIL import Image, ImageFilter

    lpips = load_lpips(net, real_weight(f"lpips-{net}"))
    photo = Image.open(example_photo).convert("RGB").resize((128, 96))
    versions = [photo, photo.filter(ImageFilter.GaussianBlur(1)), photo.filter(ImageFilter.GaussianBlur(4))]
    batch = torch.stack([to_levels(version) / 255 for version in versions])
    values = lpips.of_levels(batch, batch[:1].expand_as(batch)).tolist()
    assert values[0] == 0 and 0.01 < values[1] < values[2] < 1
    assert np.isfinite(values).all()
