"""The API as it describes itself: schemathesis asks what the description allows, and what it does not."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from mast.studio.app import create_app
from mast.studio.desk import Desk
from mast.studio.pictures import Limits
from mast.studio.safety import Access
from tests.studio.conftest import ALPHA, PHOTO, upload

FEW = settings(
    max_examples=int(os.environ.get("MAST_FUZZ", "8")),  # `make fuzz` tries more
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
KNOWN = {"Authorization": f"Bearer {ALPHA}", "Host": "127.0.0.1"}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The app without its processes, by its own description; pictures and jobs of it exist."""
    desk = Desk(tmp_path_factory.mktemp("api") / "data", "preview", "cpu", Limits(bytes=1 << 20, waiting=5))
    app = create_app(desk, Access((ALPHA,)))

    async def without_a_life(scope: Any, receive: Any, send: Any) -> None:
        """Nothing starts, and nothing ends, with the first and last question."""
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})

    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", without_a_life, headers=KNOWN, config=SchemathesisConfig.from_dict({})
    )
    yield schema
    desk.store.close()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_makes_the_studio_stumble(described, mode):
    asked = 0
    for found in described.get_all_operations():
        operation = found.ok()
        fields = [*operation.path_parameters, *operation.query, *operation.body]
        if mode is GenerationMode.NEGATIVE and not fields:
            continue  # nothing that could be wrong

        @FEW
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            nonlocal asked
            answer = case.call(headers=KNOWN)
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)
            if answer.status_code >= 400:
                assert list(answer.json()) == ["error"], (case.as_curl_command(), answer.text)
            asked += 1

        with suppress(Unsatisfiable):  # where no request is wrong: any bytes may be sent as a picture
            ask()
    assert asked >= 50


def test_the_description_is_whole(client):
    api = client.get("/openapi.json").json()
    assert len(api["paths"]) >= 19
    for path, methods in api["paths"].items():
        for method, facts in methods.items():
            assert facts["description"], (method, path)
            assert {"401", "404", "422"} <= set(facts["responses"])


def test_the_documentation_needs_no_script(client):
    answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "/api/jobs/{id}/events" in answer.text and "JobRequest" in answer.text
    for word in ("<script", "<style", "style=", "https://", "http://"):
        assert word not in answer.text


def test_jobs_and_pictures_of_a_fresh_workspace(client):
    assert client.get("/api/jobs").json() == {"jobs": []}
    image = upload(client, PHOTO)
    assert client.get(image["url"]).content == PHOTO  # to the bit
    assert "immutable" in client.get(image["url"]).headers["cache-control"]
    made = client.post(
        "/api/jobs", json={"photo": image["id"], "regions": [{"style": "example-style-batik"}]}
    )
    job = made.json()
    assert made.status_code == 201 and job["state"] == "queued" and job["position"] == 1
    assert client.get(f"/api/jobs/{job['id']}").json() == job
    for part in ("result", "sheet", "jobfile", "preview", "thumbnail", "masses/0"):
        answer = client.get(f"/api/jobs/{job['id']}/{part}")
        assert answer.status_code == 404 and "not there yet" in answer.json()["error"]
    assert client.delete(f"/api/jobs/{job['id']}").status_code == 204
    assert client.get("/api/jobs").json() == {"jobs": []}


def test_no_more_than_so_many_wait(client):
    job = {"photo": "example-cat", "regions": [{"style": "example-style-batik"}]}
    states = [client.post("/api/jobs", json=job).status_code for _ in range(6)]
    assert states == [201] * 5 + [429]
    assert client.post("/api/jobs", json=job).headers["retry-after"]
    assert (
        client.post("/api/jobs", json={**job, "draft": True}).status_code == 201
    )  # drafts replace each other
    first = client.get("/api/jobs").json()["jobs"][-1]["id"]
    client.post(f"/api/jobs/{first}/cancel")
    assert client.post("/api/jobs", json=job).status_code == 201


def test_a_model_that_cannot_be_loaded_is_said_at_once(client, desk):
    desk.queue.model.state, desk.queue.model.message = "failed", "no such model"
    answer = client.post(
        "/api/jobs", json={"photo": "example-cat", "regions": [{"style": "example-style-batik"}]}
    )
    assert answer.status_code == 409 and "no such model" in answer.json()["error"]
    assert client.get("/api/status").json()["model"]["state"] == "failed"
