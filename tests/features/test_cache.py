"""The cache: named by content, written in one go, bounded, and never a reason for a run to fail."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mast import InputError
from mast.features.cache import DEFAULT_LIMIT, Cache, cache_limit, content_key
from mast.files import cache_folder

KB = 1024


def tensors(kilobytes: int = 1, value: float = 1.0) -> dict[str, torch.Tensor]:
    return {"latents": torch.full((kilobytes * 256,), value)}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit=100 * KB)


def age(path: Path, seconds: int) -> None:
    os.utime(path, (path.stat().st_atime - seconds, path.stat().st_mtime - seconds))


def test_what_was_written_is_read_back_bit_by_bit(cache):
    cache.write("trajectories", "a", {"latents": torch.randn(3, 4), "points": torch.randn(2).half()})
    found = cache.read("trajectories", "a")
    assert set(found) == {"latents", "points"} and found["points"].dtype == torch.float16
    assert cache.read("features", "a") is None and cache.read("trajectories", "b") is None


@given(
    change=st.sampled_from(["image", "shape", "model", "timesteps", "inversion", "nothing"]),
    seed=st.integers(0, 1000),
)
def test_a_key_depends_on_everything_that_counts_and_on_nothing_else(change, seed):
    image = torch.rand(1, 3, 4, 6, generator=torch.Generator().manual_seed(seed))
    facts = {"model": "f00d", "timesteps": (1, 21), "inversion": "plain"}
    key = content_key(image, **facts)
    other_image, other = image.clone(), dict(facts)
    if change == "image":
        other_image[0, 0, 0, 0] += 1e-3
    elif change == "shape":
        other_image = image.reshape(1, 3, 6, 4)
    elif change != "nothing":
        other[change] = {"model": "beef", "timesteps": (1, 41), "inversion": "refined"}[change]
    assert (content_key(other_image, **dict(reversed(other.items()))) == key) == (change == "nothing")


def test_writing_leaves_no_temporary_file(cache):
    for name in "abc":
        cache.write("features", name, tensors())
    assert sorted(path.name for path in cache.folder.rglob("*") if path.is_file()) == [
        f"{name}.safetensors" for name in "abc"
    ]


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write("features", "a", tensors())
    assert not [path for path in cache.folder.rglob("*") if path.is_file()]


def test_the_least_recently_used_entry_goes_first(cache):
    for seconds, name in ((300, "a"), (200, "b"), (100, "c")):
        age(cache.write("features", name, tensors(30)), seconds)
    assert cache.read("features", "a") is not None, "used: now the youngest"
    cache.write("features", "d", tensors(30))
    kept = {name for name in "abcd" if cache.path("features", name).exists()}
    assert kept == {"a", "c", "d"}


def test_the_folder_never_grows_past_its_limit(cache):
    for i in range(12):
        cache.write("features", str(i), {f"{j}.some.long.name": torch.zeros(8) for j in range(150)})
        assert sum(entry.bytes for entry in cache.entries()) <= cache.limit


def test_what_would_fill_half_the_cache_is_not_kept(cache):
    assert cache.write("features", "huge", tensors(60)) is None
    assert cache.entries() == []


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "header", "flipped"])
def test_a_damaged_file_is_found_out_removed_and_made_again(cache, damage):
    path = cache.write("trajectories", "a", tensors(4))
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(
        {
            "cut": whole[:-100],
            "empty": b"",
            "garbage": os.urandom(500),
            "header": b"\xff" * 8 + whole[8:],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :],
        }[damage]
    )
    assert cache.read("trajectories", "a") is None
    assert not path.exists()
    cache.write("trajectories", "a", tensors(4))
    assert torch.equal(cache.read("trajectories", "a")["latents"], tensors(4)["latents"])


def test_a_folder_that_cannot_be_written_costs_the_cache_not_the_run(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")
    assert cache.write("features", "a", tensors()) is None
    assert cache.read("features", "a") is None and cache.entries() == [] and cache.clear() == 0


def test_clear_and_prune_say_how_much_they_freed(cache):
    sizes = [cache.write("features", name, tensors(10)).stat().st_size for name in "abc"]
    (cache.folder / "features" / "left.part").write_bytes(b"x")
    assert cache.prune(sum(sizes)) == 0
    assert cache.prune(sum(sizes) - 1) == sizes[0] and len(cache.entries()) == 2
    assert cache.clear() == sum(sizes[1:]) and cache.entries() == []
    assert not list(cache.folder.rglob("*.part"))


def test_folder_and_limit_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MAST_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("MAST_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "mast"
    assert cache_limit() == DEFAULT_LIMIT
    for text, value in (("1000", 1000), ("2K", 2048), ("1.5m", 3 << 19), ("3G", 3 << 30)):
        monkeypatch.setenv("MAST_CACHE_LIMIT", text)
        assert cache_limit() == value


@pytest.mark.parametrize("text", ["lots", "G", "-1", "nan", "inf"])
def test_a_limit_that_is_no_size_is_an_input_error(monkeypatch, text):
    monkeypatch.setenv("MAST_CACHE_LIMIT", text)
    with pytest.raises(InputError, match="MAST_CACHE_LIMIT"):
        cache_limit()
