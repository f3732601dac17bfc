"""A studio that is killed in the middle: what was confirmed is there at the next start, and is painted."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mast.job import InputError
from mast.studio.store import ATTEMPTS, StudioStore
from tests.studio.conftest import SLOW, Studio, checked


@pytest.fixture
def own_studio(tmp_path):
    running = Studio(tmp_path)
    yield running
    running.stop()


def test_killed_in_the_middle_nothing_confirmed_is_lost(own_studio):
    studio = own_studio
    done = studio.ended(studio.submit(key="done")["id"])
    under_way = studio.submit(settings={"size": 64, "steps": 12}, key="under way")
    waiting = [studio.submit(key=f"waiting {i}", options={"pi": 0.5 + i / 10}) for i in range(2)]
    cancelled = studio.submit()
    studio.client.post(f"/api/jobs/{cancelled['id']}/cancel")
    for kind, _ in studio.events(under_way["id"]):
        if kind == "progress":
            break
    worker = studio.worker
    studio.kill()
    (orphan,) = [
        path for path in studio.folder.glob("data/workspaces/*/jobs/*") if path.name == under_way["id"]
    ]
    assert not (orphan / "result.png").exists()
    unknown = orphan.parent / "never-confirmed"
    unknown.mkdir()
    for _ in range(1200):  # the old worker sees that nobody listens any more
        if not Path(f"/proc/{worker}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()

    studio.start()
    history = studio.get("/api/jobs")["jobs"]
    assert [job["id"] for job in history] == [j["id"] for j in (cancelled, *waiting[::-1], under_way, done)]
    assert history[-1] == done and history[0]["state"] == "cancelled"
    assert history[-2]["state"] in ("queued", "running")
    assert not unknown.exists()
    assert studio.submit(settings={"size": 64, "steps": 12}, key="under way")["id"] == under_way["id"]
    finished = [studio.ended(job["id"]) for job in (under_way, *waiting)]
    assert [job["state"] for job in finished] == ["done"] * 3
    assert [job["started"] for job in finished] == sorted(job["started"] for job in finished)
    checked(studio.client.get(finished[0]["result"]["url"]))
    checked(studio.client.get(done["result"]["url"]))


def test_a_polite_end_is_quick_even_with_listeners(own_studio):
    job = own_studio.submit(settings=SLOW)
    stream = own_studio.events(job["id"])
    next(stream)
    own_studio.stop()
    assert own_studio.process.returncode == 0
    assert "go on at the next start" in "".join(own_studio.said)
    store = StudioStore(own_studio.folder / "data")
    (kept,) = store.active()
    assert kept.id == job["id"]
    store.close()


def test_two_studios_do_not_share_a_folder(tmp_path):
    first = StudioStore(tmp_path)
    with pytest.raises(InputError, match="another studio"):
        StudioStore(tmp_path)
    first.close()
    StudioStore(tmp_path).close()


def test_a_job_that_brings_the_studio_down_is_not_tried_for_ever(tmp_path):
    picture = tmp_path / "photo.png"
    picture.write_bytes(b"x")
    for attempt in range(ATTEMPTS):
        store = StudioStore(tmp_path / "data")
        if attempt == 0:
            store.add_job("w", {}, {"photo.png": picture}, [], False, None)
        assert store.take_up() == []
        assert store.begin_next() is not None
        store.close()
    store = StudioStore(tmp_path / "data")
    (given_up,) = store.take_up()
    again = store.job("w", given_up.id)
    assert again is not None and again.state == "failed" and "stopped 3 times" in str(again.error)
    assert store.begin_next() is None
    store.close()


# ------------------------------------------------------------------------------------------------ the store


@pytest.fixture
def store(tmp_path):
    made = StudioStore(tmp_path / "data")
    yield made
    made.close()


def add(store: StudioStore, image: str = "a", **more: object) -> str:
    part = store.folder / "part"
    part.write_bytes(image.encode())
    path = store.add_image("w", image, part, ".png", (1, 1)).path
    return store.add_job("w", {}, {"photo.png": path}, [image], bool(more.get("draft")), None).id


def test_pictures_that_no_job_uses_go_and_others_stay(store):
    job = add(store, "used")
    part = store.folder / "part"
    part.write_bytes(b"free")
    free = store.add_image("w", "free", part, ".png", (1, 1))
    store.tidy(unused=3600, drafts=5)
    assert free.path.exists()
    store.tidy(unused=-1, drafts=5)
    assert not free.path.exists() and store.image("w", "free") is None
    assert store.image("w", "used") is not None
    found = store.job("w", job)
    assert found is not None and store.delete(found)
    store.tidy(unused=-1, drafts=5)
    assert store.image("w", "used") is None and list(store.images_folder("w").iterdir()) == []


def test_only_the_newest_drafts_stay(store):
    ids = [add(store, draft=True) for _ in range(5)]
    kept = add(store)
    for id in [*ids, kept]:
        store.finish(id, "done", outcome={})
    store.tidy(unused=3600, drafts=2)
    assert [job.id for job in store.jobs("w", 10)] == [kept, *ids[:2:-1]]


def test_a_job_keeps_its_own_files(store):
    job = add(store)
    store.images_folder("w").joinpath("a.png").unlink()
    assert (store.job_folder("w", job) / "photo.png").read_bytes() == b"a"


def test_a_job_whose_row_is_not_written_leaves_no_files(store):
    add(store)
    part = store.folder / "other"
    part.write_bytes(b"x")
    store._db.execute("CREATE TRIGGER full BEFORE INSERT ON jobs BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    before = os.listdir(store.job_folder("w", "x").parent)
    with pytest.raises(Exception, match="disk full"):
        store.add_job("w", {}, {"photo.png": part}, [], False, None)
    assert os.listdir(store.job_folder("w", "x").parent) == before


def test_a_job_ends_once(store):
    job = add(store)
    assert store.begin_next() is not None
    assert not store.cancel_waiting(job)
    assert store.finish(job, "done", outcome={}) and not store.finish(job, "failed", "late")
    found = store.job("w", job)
    assert found is not None and found.state == "done"
