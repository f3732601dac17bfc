"""The processes behind the server, and how it is started."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mast.job import InputError, Progress
from mast.regions.segment import Prompt, Proposal
from mast.studio.events import EventHub, encoded
from mast.studio.listening import free_socket
from mast.studio.queue import JobQueue
from mast.studio.segmenting import SegmentingProcess, Unavailable, answer, missing
from mast.studio.server import access_for, data_folder, workspace_token
from mast.studio.store import StudioStore
from mast.studio.worker import Pace, known_as


class Bright:
    """A segmenter of our own: everything bright is the object."""

    name = "bright"

    def propose(self, photo: Image.Image) -> list[Proposal]:
        return [Proposal((np.asarray(photo.convert("L")) > 128).astype(np.float32), 0.9)]

    def select(self, photo: Image.Image, prompt: Prompt) -> np.ndarray:
        mask = self.propose(photo)[0].mask
        x, y = prompt.at[0] if prompt.at else prompt.box[:2] if prompt.box else (0, 0)
        return mask if mask[int(y), int(x)] else 1 - mask


def test_objects_are_found_by_clicks_boxes_and_all_at_once(tmp_path):
    pixels = np.full((64, 96, 3), (20, 40, 90), np.uint8)
    pixels[16:48, 24:72] = (230, 200, 120)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    photo, segmenters = str(tmp_path / "photo.png"), {"objects": Bright(), "salience": None}
    inside = answer(segmenters, "select", photo, at=((30.0, 40.0),), away=((90.0, 5.0),))
    assert inside.dtype == np.uint8 and inside[30, 40] == 255 and inside[5, 5] == 0
    around = answer(segmenters, "select", photo, box=(0.0, 0.0, 60.0, 60.0))
    assert np.array_equal(around, 255 - inside)
    names, masks, _ = answer(segmenters, "divide", photo, n=2)
    assert len(names) == len(masks) == 2
    assert np.abs(np.sum(masks, 0, dtype=int) - 255).max() <= 1 and masks[0][30, 40] > 200
    with pytest.raises(InputError, match="outside the photo"):
        answer(segmenters, "select", photo, at=((500.0, 1.0),))


def test_without_weights_the_way_out_is_said(client, own_cache):
    said = missing()
    assert said is not None and "mast weights fetch mobile-sam u2netp" in said
    with pytest.raises(Unavailable):
        SegmentingProcess().ask("select", own_cache)
    found = client.post("/api/segment/auto", json={"photo": "example-cat", "n": 3})
    assert found.status_code == 409 and "mast weights fetch" in found.json()["error"]
    assert not client.get("/api/status").json()["segmenter"]["available"]


def test_a_model_that_is_not_there_fails_with_its_sentence(tmp_path):
    store = StudioStore(tmp_path / "data")
    queue = JobQueue(store, str(tmp_path / "no-model"), "cpu", lambda job, kind: None)
    queue.start()
    assert queue.settled.wait(120)
    assert queue.model.state == "failed" and "no-model" in queue.model.message
    queue.stop()
    store.close()


def test_the_name_of_a_model_gives_no_folder_away(tmp_path):
    assert known_as("preview") == "preview" and known_as("CompVis/x") == "CompVis/x"
    assert known_as(str(tmp_path)) == tmp_path.name


def test_the_time_left_shrinks(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    pace, left = Pace(), []
    pace.steps = 10
    for stage, total in (("invert", 10), ("denoise", 10)):
        for done in range(1, total + 1):
            now[0] += 2 if stage == "invert" else 3
            left.append(pace.left(Progress(stage, done, total, 0)))
    known = [seconds for seconds in left if seconds is not None]
    assert known == sorted(known, reverse=True) and known[-1] == 0
    assert known[0] == 8 * 2 + 10 * 1.5 * 2


def test_a_slow_listener_hears_the_latest():
    async def listen() -> list[str]:
        hub, heard = EventHub(), []
        hub.loop = asyncio.get_running_loop()
        stream = hub.stream("job", lambda: {"state": "running"}, 7)
        heard.append(await anext(stream))
        for n in range(1000):
            hub._tell("job", "progress", n)
        hub._tell("job", "state", {"state": "done"})
        heard += [text async for text in stream]
        assert hub.count == 0
        return heard

    assert asyncio.run(listen()) == [
        encoded("state", {"state": "running"}, 8),
        encoded("progress", 999, 9),
        encoded("state", {"state": "done"}, 10),
    ]


def test_streams_end_with_the_server_and_show_that_they_live(monkeypatch):
    monkeypatch.setattr("mast.studio.events.HEARTBEAT", 0.01)

    async def listen() -> list[str]:
        hub = EventHub()
        stream = hub.stream("job", lambda: {"state": "queued"}, 0)
        heard = [await anext(stream), await anext(stream)]
        hub.close()
        return heard + [text async for text in stream if not text.startswith(":")]

    heard = asyncio.run(listen())
    assert heard[0].startswith("id: 1\nevent: state") and heard[1] == ": still here\n\n" and len(heard) == 2


# ------------------------------------------------------------------------------------------------ starting


def test_a_server_for_others_needs_to_know_who_may_come_in(tmp_path):
    def asked(host: str, *tokens: str, **people: str) -> Any:
        return access_for(host, 80, tokens, people, tmp_path, ["Paint.example"])

    with pytest.raises(InputError, match=r"--token TOKEN or --auth"):
        asked("0.0.0.0")
    with pytest.raises(InputError, match="8 to 200"):
        asked("127.0.0.1", "short")
    assert asked("0.0.0.0", "long-enough").knows_host("10.0.0.7:80")
    assert asked("0.0.0.0", anna="her-password").tokens == ()
    local = asked("127.0.0.1")
    assert local.tokens == (workspace_token(tmp_path),) == (workspace_token(tmp_path),)
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0
    assert local.knows_host("paint.example") and not local.knows_host("10.0.0.7")
    assert local.cookie == "mast_token_80"


def test_the_usual_port_gives_way_and_a_given_one_does_not():
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(InputError, match="another --port"):
        free_socket("127.0.0.1", port, port)
    other = free_socket("127.0.0.1", None, port)
    assert other.getsockname()[1] not in (0, port)
    other.close()
    taken.close()


def test_the_data_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder().name == "mast-studio"


def test_the_command_refuses_what_it_cannot_do(tmp_path):
    from typer.testing import CliRunner

    from mast.cli.app import app

    asked = lambda *words: CliRunner().invoke(
        app, ["studio", "--no-browser", "--data", str(tmp_path), *words]
    )
    for words, said in (
        (("--host", "0.0.0.0", "--port", "0"), "--auth"),
        (("--auth", "anna:short", "--port", "0"), "NAME:PASSWORD"),
        (("--token", "a b", "--port", "0"), "8 to 200"),
        (("--host", "300.1.1.1", "--token", "long-enough"), "cannot be used"),
    ):
        failed = asked(*words).exception
        assert isinstance(failed, InputError) and said in str(failed)
