"""Who may come in, from where, and how much they may send."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mast.studio.safety import HEADERS, Access, Gate, host_name, workspace_of
from tests.studio.conftest import ALPHA, BETA, PHOTO, in_process, upload

WITHOUT = (
    "/api/status",
    "/api/jobs",
    "/api/images/example-cat",
    "/api/jobs/x/events",
    "/openapi.json",
    "/docs",
    "/",
)


@pytest.fixture
def stranger(desk: Any, access: Access) -> Any:
    """The same app, asked without a token."""
    yield from in_process(desk, access)


@pytest.mark.parametrize("path", WITHOUT)
def test_without_a_token_there_is_nothing_to_see(stranger, path):
    answer = stranger.get(path, follow_redirects=False)
    assert answer.status_code == 401
    assert "token" in answer.json()["error"]


@pytest.mark.parametrize(
    "given", ["Bearer wrong-token", "Bearer ", f"bearer{ALPHA}", "Basic !!", "Digest x", ""]
)
def test_a_wrong_token_is_none(stranger, given):
    assert stranger.get("/api/status", headers={"Authorization": given}).status_code == 401
    assert stranger.get("/api/status", headers={"Cookie": "mast_token_1=wrong-token"}).status_code == 401


def test_the_printed_address_gives_a_cookie_and_hides_the_token(stranger):
    answer = stranger.get(f"/?token={ALPHA}", follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    stranger.cookies.clear()
    assert stranger.get("/?token=wrong-token", follow_redirects=False).status_code == 401
    value = cookie.split(";")[0]
    assert stranger.get("/api/status", headers={"Cookie": value}).status_code == 200
    assert stranger.get("/", headers={"Cookie": f"other=1; {value}"}).status_code == 200


def test_names_and_passwords(stranger):
    def ask(text: str) -> int:
        encoded = base64.b64encode(text.encode()).decode()
        return stranger.get("/api/status", headers={"Authorization": f"Basic {encoded}"}).status_code

    assert ask("anna:her-password") == 200
    assert ask("anna:another") == ask("bob:her-password") == ask("anna:") == ask("bob:") == 401
    assert "Basic" in stranger.get("/").headers["www-authenticate"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil", "192.168.1.5"]
)
def test_another_host_is_refused(client, host):
    answer = client.get("/api/status", headers={"Host": host})
    assert answer.status_code == 421 and "error" in answer.json()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8421", "localhost", "[::1]:80", "studio.example", "STUDIO.example:1"]
)
def test_our_own_hosts_are_known(client, host):
    assert client.get("/api/status", headers={"Host": host}).status_code == 200


def test_a_server_for_everybody_knows_addresses_but_no_foreign_names():
    access = Access(("t",), hosts=frozenset({"0.0.0.0", "box"}))
    assert (
        access.knows_host("192.168.1.5:8421") and access.knows_host("[fe80::1]") and access.knows_host("box")
    )
    assert not access.knows_host("rebound.example")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost", "x://["]
)
def test_another_page_cannot_change_anything(client, origin):
    for path in ("/api/images", "/api/jobs", "/api/jobs/x/cancel", "/api/segment/auto"):
        answer = client.post(path, content=b"{}", headers={"Origin": origin})
        assert answer.status_code == 403, path
    assert client.delete("/api/jobs/x", headers={"Origin": origin}).status_code == 403
    assert (
        client.post("/api/images", content=PHOTO, headers={"Origin": "http://127.0.0.1"}).status_code == 201
    )


@pytest.mark.parametrize("path", ["/", "/api/status", "/api/nothing", "/docs", "/api/images/example-cat"])
def test_every_answer_has_the_headers(client, stranger, path):
    for answer in (client.get(path), stranger.get(path), client.get(path, headers={"Host": "evil"})):
        for name in HEADERS:
            assert name in answer.headers, name
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy and ("default-src 'self'" in policy or "default-src 'none'" in policy)
        assert len(answer.headers.get_list("x-content-type-options")) == 1
        assert "server" not in answer.headers


def test_a_workspace_sees_nothing_of_another(desk, access, client):
    image = upload(client, PHOTO)
    region = {"style": "example-style-batik"}
    job = client.post("/api/jobs", json={"photo": image["id"], "regions": [region]}).json()
    other = next(in_process(desk, access, Authorization=f"Bearer {BETA}"))
    assert other.get("/api/jobs").json() == {"jobs": []}
    for path in (
        image["url"],
        *(f"/api/jobs/{job['id']}{end}" for end in ("", "/events", "/result", "/jobfile")),
    ):
        assert other.get(path).status_code == 404, path
    assert other.delete(f"/api/jobs/{job['id']}").status_code == 404
    assert other.post(f"/api/jobs/{job['id']}/cancel").status_code == 404
    assert other.post("/api/jobs", json={"photo": image["id"], "regions": [region]}).status_code == 404
    assert upload(other, PHOTO)["id"] != image["id"]  # so that nobody can ask who has a picture
    assert client.get(f"/api/jobs/{job['id']}").json()["state"] == "queued"
    assert other.get("/api/jobs", params={"before": job["id"]}).json() == {"jobs": []}


def test_a_body_that_says_it_is_too_large_is_not_read(client):
    for path, length in (("/api/images", 1 << 30), ("/api/jobs", 1 << 20)):
        answer = client.post(path, content=b"x", headers={"Content-Length": str(length)})
        assert answer.status_code == 413 and "at most" in answer.json()["error"]
    assert client.post("/api/images", content=b"x", headers={"Content-Length": "x"}).status_code == 400


@pytest.mark.parametrize("path", ["/api/images", "/api/jobs", "/api/segment/click"])
def test_a_gigabyte_without_a_length_is_stopped_early(desk, access, path):
    """The client would send 16,384 pieces; it is stopped after as many as the limit holds."""
    sent, answers = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        return {"type": "http.request", "body": bytes(65536), "more_body": sent < 16384}

    async def send(message: Any) -> None:
        answers.append(message)

    from mast.studio.app import create_app

    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {ALPHA}".encode())]
    headers.append((b"content-type", b"application/json"))
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {
        "headers": headers,
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
        "server": ("x", 1),
    }
    asyncio.run(create_app(desk, access)({**scope, "client": ("x", 1)}, receive, send))
    assert answers[0]["status"] == 413
    assert sum(message["type"] == "http.response.start" for message in answers) == 1
    assert sent * 65536 <= desk.limits.of_body(path) + 2 * 65536
    assert list((desk.store.folder / "incoming").glob("*")) == []


def test_a_client_that_falls_silent_is_given_up(monkeypatch):
    monkeypatch.setattr("mast.studio.safety.PATIENCE", 0.01)
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(await receive())

    async def never() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None: ...

    gate = Gate(app, Access((ALPHA,)), lambda path: 100)
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {ALPHA}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    asyncio.run(gate(scope, never, send))
    assert heard == [{"type": "http.disconnect"}]


def test_what_is_not_http_is_closed(client):
    async def ask() -> list[Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await Gate(client.app.app, Access((ALPHA,)), len)({"type": "websocket"}, receive, send)
        return sent

    assert asyncio.run(ask())[0]["type"] == "websocket.close"


@given(st.text(max_size=60))
def test_any_host_header_has_an_answer(text):
    assert isinstance(host_name(text), str)
    assert not Access(("t",)).knows_host(f"{text}.evil.example")


@given(st.text(max_size=40), st.text(max_size=40))
def test_workspaces_are_names_of_folders_and_differ(one, other):
    assert len(workspace_of(one)) == 32 and workspace_of(one).isalnum()
    assert (workspace_of(one) == workspace_of(other)) == (one == other)
