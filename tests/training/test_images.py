"""Training pictures: where they come from, which are held out, how they are cropped, new ones."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.small import draw
from training import paint
from training.borders import border_ratio
from training.images import large_enough, list_images, load_images, random_crop


def test_pictures_come_from_everywhere(folder: Path, images: list[np.ndarray], tmp_path: Path) -> None:
    assert len(images) == 12
    assert all(image.shape == (160, 160, 3) and image.dtype == np.uint8 for image in images)
    assert sum(entry.painting for entry in list_images(folder)) == 4
    with pytest.raises(FileNotFoundError, match="no pictures in"):
        load_images(tmp_path)


@pytest.mark.parametrize(("archive", "every"), [("photos", 15), ("paintings", 100)])
def test_some_pictures_are_held_out(archive: str, every: int, tmp_path: Path) -> None:
    draw(np.random.default_rng(0)).save(tmp_path / "one.jpg")
    (tmp_path / "readme.md").write_text("a member that is no picture counts, too")
    with tarfile.open(tmp_path / f"{archive}.tar", "w") as tar:
        for number in range(every + 2):
            tar.add(
                tmp_path / ("readme.md" if number == 1 else "one.jpg"),
                f"{number}.{'md' if number == 1 else 'jpg'}",
            )
    held = [entry.member for entry in list_images(tmp_path, "held-out")]
    assert held == ["0.jpg", f"{every}.jpg"]
    assert [entry.member for entry in list_images(tmp_path, "validation")] == [f"{every // 2}.jpg"]
    trained = {entry.member for entry in list_images(tmp_path)}
    assert trained == {"", f"{every + 1}.jpg", *(f"{i}.jpg" for i in range(2, every) if i != every // 2)}
    assert all(entry.painting == (archive == "paintings") for entry in list_images(tmp_path, "held-out"))


def test_a_damaged_archive_gives_what_comes_before(tmp_path: Path) -> None:
    draw(np.random.default_rng(0)).save(tmp_path / "one.png")
    with tarfile.open(tmp_path / "some.tar", "w") as tar:
        for number in range(3):
            tar.add(tmp_path / "one.png", f"{number}.png")
    (tmp_path / "one.png").unlink()
    whole = (tmp_path / "some.tar").read_bytes()
    (tmp_path / "some.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="left out"):
        assert len(load_images(tmp_path)) == 1


def test_crops() -> None:
    rng = np.random.default_rng(0)
    images = [np.asarray(draw(rng, side)) for side in (130, 160, 500)]
    assert {size: found.tolist() for size, found in large_enough(images, (192, 240, 384)).items()} == {
        192: [0, 1, 2],
        240: [1, 2],
        384: [2],
    }
    for image in images:
        assert random_crop(image, 192, rng).shape == (192, 192, 3)
    small = [random_crop(images[2], 384, np.random.default_rng(seed)) for seed in range(2)]
    assert small[0].shape == small[1].shape and not np.array_equal(*small)


def test_a_grid_in_a_picture_of_just_the_size_does_not_stay_in_place() -> None:
    rng = np.random.default_rng(0)
    cells = np.repeat(np.repeat(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8), 8, 0), 8, 1)
    crops = torch.from_numpy(np.stack([random_crop(cells, 128, rng) for _ in range(20)]))
    ratio = lambda pixels: border_ratio(pixels.permute(0, 3, 1, 2).float())
    assert ratio(torch.from_numpy(cells)[None]) > 10 and ratio(crops) < 1.5


def test_painted_pictures_are_not_the_bundled_ones(tmp_path: Path, monkeypatch) -> None:
    painters, size = paint.load_painters()
    assert len(painters) == 14 and size == 512
    seen = []

    def stub(rng: np.random.Generator) -> np.ndarray:  # a real one takes seconds
        seen.append(rng.random())
        return np.linspace([255, 0, 0], [0, 0, 64], 64 * 64).reshape(64, 64, 3)

    monkeypatch.setattr(paint, "load_painters", lambda: ({"a": stub, "b": stub}, 32))
    paint.main(["--out", str(tmp_path / "new"), "--count", "3"])
    paint.main(["--out", str(tmp_path / "new"), "--count", "4"])
    assert len(seen) == len(set(seen)) == 4, "what is there is kept"
    listed = list_images(tmp_path / "new")
    pictures = [np.asarray(entry.read()) for entry in listed]
    assert all(entry.painting for entry in listed) and pictures[0].shape == (32, 32, 3)
    assert np.abs(pictures[0].astype(int) - pictures[1]).mean() > 5, "each has its own palette"
