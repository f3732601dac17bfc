"""The cache: named by content, written in one go, bounded, and never a reason for a run to fail."""

import os
import random
import shutil
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from mast import InputError
from mast.features.cache import DEFAULT_LIMIT, KINDS, MARKER, Cache, cache_limit, content_key
from mast.features.library import Library
from mast.features.recording import STYLE, FeatureSource
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
    names = sorted(path.name for path in cache.folder.rglob("*") if path.is_file())
    assert names == [MARKER, *(f"{name}.safetensors" for name in "abc")]


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    cache.write("trajectories", "a", tensors())
    before = sorted(cache.folder.rglob("*"))
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.write("trajectories", "b", tensors())
    assert sorted(cache.folder.rglob("*")) == before


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


# ---------------------------------------------------------------------------------------- whose files


def foreign(path: Path, days: float = 300) -> Path:
    """A file of some other program, older than any of the cache's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({"weight": torch.zeros(1000)}, path, metadata={"format": "pt"})
    age(path, int(days * 86400))
    return path


KEYS = ("0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef-key-value-float16")


@pytest.mark.parametrize("name", ["model", "model.fp16", KEYS[0]])
@pytest.mark.parametrize("place", ["unet", "features", "weights", "."])
def test_the_files_of_other_programs_are_never_removed(tmp_path, place, name):
    """MAST_CACHE=/models: another program keeps its files there, even under a name the cache would use."""
    theirs = foreign(tmp_path / place / f"{name}.safetensors")
    cache = Cache(tmp_path, limit=4 * KB)
    for i in range(6):
        for kind in KINDS:
            cache.write(kind, f"{i}", tensors(1))
            cache.read(kind, f"{i}")
    assert cache.prune(0) > 0
    cache.clear()
    Cache(tmp_path, limit=0).read("features", "0")
    assert theirs.exists() and cache.entries() == []


def test_a_file_somebody_puts_beside_the_entries_is_left_alone(cache):
    cache.write("features", "a", tensors())
    theirs = foreign(cache.folder / "features" / "model.safetensors")
    assert [entry.path.stem for entry in cache.entries()] == ["a"]
    cache.clear()
    assert theirs.exists()


def test_a_folder_in_which_others_keep_files_costs_the_cache_not_the_run(tmp_path):
    foreign(tmp_path / "features" / "model.safetensors")
    cache = Cache(tmp_path)
    assert cache.write("features", "a", tensors()) is None and cache.read("features", "a") is None
    assert cache.write("trajectories", "a", tensors()) is not None


def test_weights_are_not_for_pruning(cache):
    weights = foreign(cache.folder / "weights" / f"{KEYS[0]}.safetensors")
    cache.write("features", "a", tensors())
    cache.clear()
    assert weights.exists()
    with pytest.raises(ValueError, match="no place in the cache"):
        cache.write("weights", "a", tensors())


@pytest.mark.parametrize("key", ["../a", "a/b", "", ".hidden", "/etc/a"])
def test_no_key_leads_out_of_the_folder(cache, key):
    with pytest.raises(ValueError, match="no place in the cache"):
        cache.write("features", key, tensors())


def test_links_are_not_followed(cache, tmp_path):
    cache.write("features", KEYS[0], tensors())
    elsewhere = Cache(tmp_path / "elsewhere")
    theirs = elsewhere.write("trajectories", KEYS[0], tensors())
    cache.write("trajectories", "a", tensors())
    shutil.rmtree(cache.folder / "trajectories")
    (cache.folder / "trajectories").symlink_to(theirs.parent)
    (cache.folder / "features" / f"{KEYS[1]}.safetensors").symlink_to(theirs)
    assert {entry.kind for entry in cache.entries()} == {"features"} and len(cache.entries()) == 1
    assert cache.read("trajectories", KEYS[0]) is None and cache.read("features", KEYS[1]) is None
    assert cache.write("trajectories", "b", tensors()) is None
    cache.clear()
    assert elsewhere.read("trajectories", KEYS[0]) is not None
    assert [path.name for path in theirs.parent.iterdir()] == [theirs.name]


def test_the_entries_of_the_version_before_are_taken_over_and_go_like_any_others(tmp_path):
    old = tmp_path / "features" / f"{KEYS[0]}.safetensors"
    old.parent.mkdir(parents=True)
    save_file(tensors(), old, metadata={"crc32": "0123abcd"})
    (old.parent / "tmpab12cd_4.part").write_bytes(b"cut")
    cache = Cache(tmp_path)
    assert cache.read("features", KEYS[0]) is None, "its checksum does not cover all"
    assert cache.write("features", "a", tensors()) is not None
    assert len(cache.entries()) == 2
    cache.clear()
    assert not list(old.parent.iterdir())


def test_a_marker_that_was_lost_is_made_again(cache):
    cache.write("features", "a", tensors())
    (cache.folder / MARKER).unlink()
    assert cache.read("features", "a") is None and cache.clear() == 0, "who knows whose it is"
    cache.write("features", "b", tensors())
    assert cache.read("features", "a") is not None and cache.read("features", "b") is not None


# ---------------------------------------------------------------------------------------- belief


def test_no_bit_of_a_file_can_flip_unseen(cache):
    """Three bits of every byte of the header, one of every byte of the rest."""
    path = cache.write("features", "a", {"0.key": torch.arange(6.0).view(2, 3)}, about="cat")
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    flips = [(i, bit) for i in range(header) for bit in {i % 8, (i + 3) % 8, 5}]
    flips += [(i, i % 8) for i in range(header, len(whole))]
    believed = []
    for position, bit in flips:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        path.write_bytes(damaged)
        believe = cache.read if position % 2 else cache.sound
        if believe("features", "a") is not None:
            believed.append((position, bit))
    path.write_bytes(whole)
    assert cache.read("features", "a") is not None and len(flips) > 400
    assert not believed


def test_an_entry_under_the_wrong_name_is_not_believed(cache):
    path = cache.write("features", "a", tensors())
    shutil.copy(path, cache.path("features", "b"))
    assert cache.read("features", "b") is None and not cache.path("features", "b").exists()
    assert cache.read("features", "a") is not None


@pytest.mark.parametrize("believe", ["read", "sound"])
def test_an_entry_that_lacks_something_is_dropped(cache, believe):
    path = cache.write("features", "a", {"0.key": torch.ones(3)})
    assert getattr(cache, believe)("features", "a", {"0.key"}) is not None
    assert getattr(cache, believe)("features", "a", {"0.key", "0.value"}) is None
    assert not path.exists()


@pytest.mark.parametrize(("kind", "lost"), [("features", "1.0.key"), ("trajectories", "points")])
def test_a_picture_whose_entry_lacks_something_is_inverted_again(tiny_backbone, cache, kind, lost):
    """Sound to the last bit, but not all that is needed: made again, and never an error of a later run."""
    cache.limit = DEFAULT_LIMIT
    image, passes = torch.zeros(1, 3, 64, 64), []

    def look_up() -> FeatureSource:
        books = Library(tiny_backbone, tiny_backbone.schedule(3), True, torch.float16, cache, True)
        return books.look_up(image, STYLE, passes.append, about="cat.jpg 64x64")[1]

    whole = look_up().features(1)
    assert {entry.about for entry in cache.entries()} == {"cat.jpg 64x64"}
    [entry] = [entry for entry in cache.entries() if entry.kind == kind]
    kept = cache.read(kind, entry.path.stem)
    cache.write(kind, entry.path.stem, {name: tensor for name, tensor in kept.items() if name != lost})
    passes.clear()
    again = look_up().features(1)
    assert passes and again.keys() == whole.keys()
    assert all(torch.equal(again[name], whole[name]) for name in whole)
    passes.clear()
    look_up()
    assert not passes, "the entry is whole again"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_what_is_not_finite_is_neither_kept_nor_believed(cache, monkeypatch, value, dtype):
    bad = {"latents": torch.tensor([1.0, value, 2.0], dtype=dtype), "steps": torch.arange(3)}
    assert cache.write("trajectories", "a", bad) is None and cache.entries() == []
    monkeypatch.setattr("mast.features.cache._finite", lambda tensor: True)
    path = cache.write("trajectories", "a", bad)
    monkeypatch.undo()
    assert cache.read("trajectories", "a") is None and not path.exists()


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_what_is_no_file_neither_hangs_nor_breaks_the_cache(cache, tmp_path, kind):
    cache.write("features", "a", tensors())
    path = cache.path("features", "b")
    if kind == "folder":
        path.mkdir()
    else:
        place = path if kind == "pipe" else tmp_path / "pipe"
        os.mkfifo(place)
        if kind != "pipe":
            path.symlink_to(place)
    os.mkfifo(cache.folder / "features" / "c.part")
    assert cache.find("features", "b") is None and cache.read("features", "b") is None
    assert cache.sound("features", "b") is None
    assert [entry.path.stem for entry in cache.entries()] == ["a"]
    written = cache.write("features", "b", tensors())
    assert (written is None) == (kind == "folder")
    cache.prune(0)
    cache.clear()
    assert cache.entries() == []


def test_a_marker_that_is_a_pipe_does_not_hang(cache):
    cache.folder.mkdir()
    os.mkfifo(cache.folder / MARKER)
    assert cache.read("features", "a") is None and cache.entries() == [] and cache.clear() == 0


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 2, 3)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool, torch.uint8])
def test_every_shape_and_kind_of_number_comes_back(cache, shape, dtype):
    tensor = torch.ones(shape, dtype=dtype)
    cache.write("metrics", "a", {"t": tensor, "turned": torch.arange(6.0).view(2, 3).T})
    found = cache.read("metrics", "a")
    assert found["t"].dtype == dtype and found["t"].shape == shape and torch.equal(found["t"], tensor)
    assert torch.equal(found["turned"], torch.arange(6.0).view(2, 3).T)


# ---------------------------------------------------------------------------------------- room


def test_a_lowered_limit_acts_at_once(cache):
    for seconds, name in ((300, "a"), (200, "b"), (100, "c")):
        age(cache.write("features", name, tensors(10)), seconds)
    Cache(cache.folder, limit=25 * KB).find("features", "none")
    assert [entry.path.stem for entry in cache.entries()] == ["b", "c"]
    cache.limit = 15 * KB
    assert cache.write("features", "huge", tensors(50)) is None
    assert [entry.path.stem for entry in cache.entries()] == ["c"]
    Cache(cache.folder, limit=0).write("features", "d", tensors())
    assert cache.entries() == []


def test_listing_removes_nothing(cache):
    cache.write("features", "a", tensors(10))
    assert len(Cache(cache.folder, limit=0).entries()) == 1 and cache.read("features", "a") is not None


def test_unfinished_files_go_when_they_are_old(cache):
    cache.write("features", "a", tensors())
    young, old = (cache.folder / "features" / f"{name}.part" for name in ("young", "old"))
    for path in (young, old):
        path.write_bytes(b"x")
    age(old, 7200)
    cache.write("features", "b", tensors())
    assert young.exists() and not old.exists()
    cache.clear()
    assert not young.exists()


# ---------------------------------------------------------------------------------------- labels


def test_entries_say_what_they_are_of_and_when_they_were_made(cache):
    before = int(time.time())
    cache.write("features", "a", tensors(), about="cat.jpg 512x384")
    cache.write("features", "b", tensors())
    about = {entry.path.stem: entry for entry in cache.entries()}
    assert about["a"].about == "cat.jpg 512x384" and before <= about["a"].made <= time.time()
    assert about["b"].about == "" and about["b"].made is not None


@given(st.text(max_size=300))
def test_any_label_can_be_kept_and_printed(text):
    folder = cache_folder()
    cache = Cache(folder)
    path = cache.write("features", "a", tensors(), about=text)
    assert cache.read("features", "a") is not None
    [entry] = cache.entries()
    entry.about.encode()
    assert "\n" not in entry.about and (not text.isalnum() or entry.about == text[:200] or len(text) > 200)
    path.unlink()


def test_a_label_that_cannot_be_read_is_none(cache):
    path = cache.write("features", KEYS[0], tensors(), about="cat.jpg")
    for data in (b"", b"\xff" * 50, path.read_bytes()[:40], path.read_bytes().replace(b"about", b"abuot")):
        path.write_bytes(data)
        [entry] = cache.entries()
        assert entry.about == "" and entry.made is None


# ---------------------------------------------------------------------------------------- threads


def test_eight_threads_at_once_read_only_what_was_written(tmp_path):
    """Small enough that entries are dropped all the time; what is read is always whole and the right one."""
    cache = Cache(tmp_path / "cache", limit=30 * KB)
    wrong: list[str] = []
    hits = 0

    def work(seed: int) -> None:
        nonlocal hits
        own = cache if seed % 2 else Cache(tmp_path / "cache", limit=30 * KB)
        rng = random.Random(seed)
        try:
            for _ in range(60):
                number = rng.randrange(12)
                kind = KINDS[number % len(KINDS)]
                if rng.random() < 0.5:
                    own.write(kind, str(number), tensors(2, float(number)), about=str(number))
                elif (found := own.read(kind, str(number), {"latents"})) is not None:
                    hits += 1
                    if not torch.equal(found["latents"], tensors(2, float(number))["latents"]):
                        wrong.append(f"{number} is another's")
                if rng.random() < 0.05:
                    own.clear() if rng.random() < 0.2 else own.prune(10 * KB)
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and hits
    assert sum(entry.bytes for entry in cache.entries()) <= cache.limit
    assert {path.suffix for path in cache.folder.rglob("*") if path.is_file()} <= {".safetensors", ""}


def test_a_cache_deleted_under_its_users_is_made_again(cache):
    for _ in range(3):
        cache.write("features", "a", tensors())
        shutil.rmtree(cache.folder)
        assert cache.read("features", "a") is None and cache.entries() == []
        assert cache.write("features", "a", tensors()) is not None
        assert cache.read("features", "a") is not None
