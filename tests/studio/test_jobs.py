"""Jobs of a real studio: painted, watched, cancelled, replaced, taken along."""

from __future__ import annotations

import io
import os
import signal
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mast.images import read_provenance
from tests.studio.conftest import BETA, SLOW, STYLE_A, TINY, checked, png, upload
from tests.tiny import picture


@pytest.fixture(scope="module")
def painted(studio):
    """A finished job, and all that was said while it was painted."""
    job = studio.submit(options={"pi": 0.8})
    said = list(studio.events(job["id"]))
    return studio.job(job["id"]), said


def test_a_job_goes_its_way(painted):
    job, said = painted
    assert job["state"] == "done" and job["error"] is None and job["position"] is None
    assert job["created"] <= job["started"] <= job["finished"] and job["created"].endswith("Z")
    assert set(job["seconds"]) >= {"prepare", "invert", "denoise"}
    result = job["result"]
    assert (result["width"], result["height"]) == (96, 64)
    assert [mass["name"] for mass in result["masses"]] == ["left", "the rest"]
    kinds = [kind for kind, _ in said]
    assert kinds[-1] == "state" and said[-1][1] == job
    assert "progress" in kinds


def test_progress_counts_up(painted):
    steps = [data["progress"] for kind, data in painted[1] if kind == "progress"]
    assert {step["stage"] for step in steps} <= {"invert", "denoise"}
    order = [(step["stage"] == "denoise", step["done"]) for step in steps]
    assert order == sorted(order)
    assert all(0 < step["done"] <= step["total"] for step in steps)


def test_the_pictures_of_a_job(studio, painted):
    job, _ = painted
    for url in (job["result"]["url"], job["result"]["sheet"], job["result"]["thumbnail"]):
        answer = checked(studio.client.get(url))
        assert answer.headers["content-type"] in ("image/png", "image/jpeg")
        Image.open(io.BytesIO(answer.content)).load()
    for i in range(2):
        shown = Image.open(io.BytesIO(studio.client.get(f"/api/jobs/{job['id']}/masses/{i}").content))
        assert shown.size == (96, 64)
    assert studio.client.get(f"/api/jobs/{job['id']}/masses/2").status_code == 404
    assert studio.client.get(f"/api/jobs/{job['id']}/preview").status_code == 404  # gone with the end


def test_masses_lie_where_the_regions_are(studio, painted):
    """The first region is green, its left half: there the overlay is greener than on the right."""
    data = studio.client.get(painted[0]["result"]["masses"][0]["url"]).content
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), float)
    green = pixels[..., 1] - pixels[..., (0, 2)].mean(-1)
    assert green[:, :40].mean() > green[:, 56:].mean() + 20


def test_what_is_taken_along_replays_and_paints_again(studio, painted, tmp_path, monkeypatch):
    """Unpacked elsewhere: the record is replayed bit by bit, and the job file is the same job."""
    from mast import load, stylize
    from mast.pipeline.jobfile import read_jobfile
    from mast.pipeline.provenance import job_from, load_record, method_from, same_pixels, settings_from

    answer = checked(studio.client.get(painted[0]["result"]["jobfile"]))
    zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
    folder = tmp_path / "mast-job"
    assert (folder / "result.png").read_bytes() == studio.client.get(painted[0]["result"]["url"]).content
    record = load_record(folder / "result.png")
    assert record["content"]["path"] == "photo.png" and record["method"]["pi"] == 0.8
    backbone = load(record["model"]["name"])
    again = stylize(job_from(record, folder), backbone, method_from(record), settings_from(record))
    assert same_pixels(again.image, Image.open(folder / "result.png"))[0]
    known = read_jobfile(folder / "job.toml")
    assert known.names == ("left", "the rest") and known.method == "mast:pi=0.8"
    assert known.settings["steps"] == 3 and known.job.regions[0].strength == 0.8
    assert not list(studio.folder.glob("data/incoming/*.zip"))


def test_the_command_line_paints_the_same(studio, painted, tmp_path, monkeypatch):
    import shlex

    from typer.testing import CliRunner

    from mast.cli.app import app

    answer = checked(studio.client.get(painted[0]["result"]["jobfile"]))
    zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
    monkeypatch.chdir(tmp_path / "mast-job")
    before = Path("result.png").read_bytes()
    words = shlex.split(painted[0]["result"]["command"])
    assert CliRunner().invoke(app, [*words[1:], "--overwrite"]).exit_code == 0
    same = np.array_equal(np.asarray(Image.open("result.png")), np.asarray(Image.open(io.BytesIO(before))))
    assert same and read_provenance("result.png")["settings"]["size"] == 64


def test_a_second_run_costs_only_the_denoising(studio):
    first = studio.ended(studio.submit(options={"pi": 0.7})["id"])
    again = studio.ended(studio.submit(options={"pi": 0.6})["id"])
    assert first["state"] == again["state"] == "done"
    assert any("inverted in an earlier run" in note for note in again["notes"])
    assert again["seconds"]["invert"] < 1


def test_cancelling_stops_at_the_next_step(studio):
    job = studio.submit(settings=SLOW)
    studio.until(job["id"], "running")
    for kind, data in studio.events(job["id"]):
        if kind == "progress":
            done = data["progress"]["done"]
            assert studio.client.post(f"/api/jobs/{job['id']}/cancel").status_code == 200
            break
    ended = studio.ended(job["id"])
    assert ended["state"] == "cancelled" and ended["result"] is None and ended["error"] is None
    assert done < 150
    assert studio.client.get(f"/api/jobs/{job['id']}/result").status_code == 404
    again = checked(studio.client.post(f"/api/jobs/{job['id']}/cancel")).json()  # and again: nothing happens
    assert again["state"] == "cancelled"


def test_a_cancel_on_the_way_to_the_worker_is_not_lost(studio):
    for _ in range(6):
        job = studio.submit(settings=SLOW)
        studio.client.post(f"/api/jobs/{job['id']}/cancel")
        assert studio.ended(job["id"])["state"] == "cancelled"


def test_a_preview_is_there_while_it_is_painted(studio):
    job = studio.submit(settings={"size": 64, "steps": 20}, options={"pi": 0.5})
    for kind, data in studio.events(job["id"]):
        if kind == "preview":
            answer = checked(studio.client.get(data["url"]))
            assert answer.headers["cache-control"] == "no-store"
            assert Image.open(io.BytesIO(answer.content)).size == (96, 64)
            assert studio.job(job["id"])["preview"].startswith(f"/api/jobs/{job['id']}/preview")
            studio.client.post(f"/api/jobs/{job['id']}/cancel")
    assert studio.job(job["id"])["state"] == "cancelled"


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_is_not_deleted(studio):
    running = studio.submit(settings=SLOW)
    studio.until(running["id"], "running")
    waiting = studio.submit()
    assert waiting["state"] == "queued" and waiting["position"] == 1
    assert studio.client.delete(f"/api/jobs/{running['id']}").status_code == 409
    assert studio.client.post(f"/api/jobs/{waiting['id']}/cancel").json()["state"] == "cancelled"
    assert studio.client.delete(f"/api/jobs/{waiting['id']}").status_code == 204
    studio.client.post(f"/api/jobs/{running['id']}/cancel")
    studio.ended(running["id"])
    folders = {path.name for path in studio.folder.glob("data/workspaces/*/jobs/*")}
    assert running["id"] in folders and waiting["id"] not in folders
    assert studio.client.delete(f"/api/jobs/{running['id']}").status_code == 204
    assert studio.client.get(f"/api/jobs/{running['id']}").status_code == 404


def test_a_newer_draft_takes_the_place_of_older_ones(studio):
    one = studio.submit(settings=SLOW, draft=True)
    studio.until(one["id"], "running")
    two = studio.submit(settings=SLOW, draft=True)
    three = studio.submit(settings=TINY, draft=True)
    assert studio.ended(three["id"])["state"] == "done"
    assert studio.job(one["id"])["state"] == studio.job(two["id"])["state"] == "cancelled"


def test_a_draft_leaves_other_peoples_and_other_jobs_alone(studio):
    own = studio.submit(settings={"size": 64, "steps": 6})
    other = studio.with_token(BETA)
    ids = [upload(other, data)["id"] for data in (png(picture(96, 64, 1)), STYLE_A)]
    theirs = checked(
        other.post(
            "/api/jobs",
            json={"photo": ids[0], "regions": [{"style": ids[1]}], "settings": TINY, "draft": True},
        )
    ).json()
    draft = studio.submit(draft=True)
    assert studio.ended(draft["id"])["state"] == "done"
    assert studio.job(own["id"])["state"] == "done"
    assert other.get(f"/api/jobs/{theirs['id']}").json()["state"] == "done"


def test_one_key_is_one_job(studio):
    first, again = studio.submit(key="my key"), studio.submit(key="my key")
    assert first["id"] == again["id"]
    other = studio.client.post("/api/jobs", json={**studio.request, "key": "my key", "options": {"pi": 0.3}})
    assert other.status_code == 409 and "key" in other.json()["error"]
    assert studio.ended(first["id"])["state"] == "done"


def test_a_job_that_cannot_be_painted_fails_with_a_sentence(studio):
    black = upload(studio.client, png(Image.new("L", (96, 64))))
    regions = [{**studio.request["regions"][0], "mask": black["id"]}]
    ended = studio.ended(studio.submit(regions=regions)["id"])
    assert ended["state"] == "failed"
    assert "mask1.png" in ended["error"] and str(studio.folder) not in ended["error"]
    assert studio.ended(studio.submit()["id"])["state"] == "done"


def test_a_crash_of_the_worker_is_an_error_of_one_job(studio):
    job, waiting = studio.submit(settings=SLOW), studio.submit()
    studio.until(job["id"], "running")
    os.kill(studio.worker, signal.SIGKILL)
    ended = studio.ended(job["id"])
    assert ended["state"] == "failed" and "SIGKILL" in ended["error"]
    assert studio.ended(waiting["id"])["state"] == "done"  # by the next worker
    assert studio.get("/api/status")["model"]["state"] == "ready"


def test_the_history_goes_back_page_by_page(studio):
    ids = [studio.submit()["id"] for _ in range(3)]
    for id in ids:
        studio.ended(id)
    first = studio.get("/api/jobs?limit=2")["jobs"]
    assert [job["id"] for job in first] == ids[:0:-1]
    assert first[0]["request"]["regions"][0]["name"] == "left"
    rest = studio.get(f"/api/jobs?limit=2&before={first[-1]['id']}")["jobs"]
    assert rest[0]["id"] == ids[0]
    assert studio.get("/api/jobs?before=nobody")["jobs"] == []


def test_a_listener_of_a_finished_job_hears_its_end(studio, painted):
    ((kind, data),) = list(studio.events(painted[0]["id"]))
    assert kind == "state" and data == painted[0]
    answer = studio.client.get(f"/api/jobs/{painted[0]['id']}/events", headers={"Last-Event-ID": "41"})
    assert answer.text.startswith("id: 42\nevent: state\n")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_other_methods_paint_too(studio):
    ended = studio.ended(studio.submit(method="styleid:gamma=0.5")["id"])
    assert ended["state"] == "done" and ended["result"]["masses"] == []
    shared = studio.ended(studio.submit(options={"lama": False})["id"])
    assert shared["state"] == "done" and len(shared["result"]["masses"]) == 2


def test_what_can_be_chosen(studio):
    for _ in range(600):
        if studio.get("/api/status")["model"]["state"] == "ready":
            break
        time.sleep(0.1)
    status = studio.get("/api/status")
    assert status["model"]["name"] == "preview" and isinstance(status["segmenter"]["available"], bool)
    assert {"mast", "styleid"} <= {method["name"] for method in studio.get("/api/methods")}
    chosen = studio.get("/api/parameters")
    assert [preset["name"] for preset in chosen["presets"]] == ["draft", "fast", "paper"]
    for parameter in chosen["parameters"]:
        value = 1 if parameter["kind"] == "number" else True
        value = parameter["max"] if parameter["kind"] == "number" else value
        value = parameter["choices"][0] if parameter["kind"] == "choice" else value
        job = studio.submit(**{parameter["group"]: {parameter["name"]: value}}, key=f"p-{parameter['name']}")
        studio.client.post(f"/api/jobs/{job['id']}/cancel")
        studio.ended(job["id"])
    for photo in studio.get("/api/examples")["photos"]:
        assert studio.client.get(photo["url"] + "?width=64").headers["content-type"] == "image/jpeg"
        assert photo["regions"][-1]["mask"] is None
