"""Who may ask, from where, and how much they may send: an ASGI layer in front of all that the studio answers.

A token is a workspace: whoever has it sees what was made with it, and nothing else. Web pages of others
cannot use a person's browser to get in: a request must name a host that is ours (DNS rebinding), one that
changes something must come from our own page (Origin), and the cookie goes with no request from elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "mast_token"
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::", ""})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PATIENCE = 60.0  # seconds a client may pause in the middle of what it sends
LONGEST_URL = 4096  # bytes
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


class BodyTooLarge(Exception):
    """More was sent than this address takes. The client has its answer already."""


class Refused(Exception):
    """An answer other than success: its status, and the sentence that goes with it."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclass(frozen=True)
class Access:
    """Who may come in. tokens: each a workspace; people: names and passwords, each name a workspace; hosts:
    the names under which the server may be asked for, besides this machine's own.
    """

    tokens: tuple[str, ...]
    people: Mapping[str, str] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()
    cookie: str = COOKIE

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server. A name that anybody may own is no proof; an address is,
        because no foreign page can be loaded from it.
        """
        name = host_name(header)
        if name in LOCAL or name in self.hosts:
            return True
        return bool(self.hosts & EVERYWHERE) and _is_address(name)

    def token_workspace(self, given: str) -> str | None:
        """The workspace of a token; all are compared, so that the time tells nothing."""
        found = None
        for token in self.tokens:
            if hmac.compare_digest(token.encode(), given.encode(errors="replace")):
                found = workspace_of(f"token:{token}")
        return found

    def workspace(self, headers: Mapping[str, str]) -> str | None:
        """Of a request, by its Authorization header or its cookie; None: it may not come in."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.token_workspace(given.strip())
        if kind.lower() == "basic":
            return self._person(given.strip())
        token = cookies(headers.get("cookie", "")).get(self.cookie)
        return None if token is None else self.token_workspace(token)

    def _person(self, encoded: str) -> str | None:
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return None
        expected = self.people.get(name)
        right = hmac.compare_digest((expected or "").encode(), password.encode())
        return workspace_of(f"name:{name}") if right and expected else None


def workspace_of(secret: str) -> str:
    """A folder's name that gives nothing away."""
    return hashlib.sha256(f"mast studio {secret}".encode()).hexdigest()[:32]


def host_name(header: str) -> str:
    """The name of a Host header, without its port and brackets."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def cookies(header: str) -> dict[str, str]:
    pairs = (piece.strip().partition("=") for piece in header.split(";"))
    return {name: value for name, mark, value in pairs if mark}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Gate:
    """The layer itself. limit: how many bytes a path takes. Whose workspace it is stands in
    `scope["state"]["workspace"]`.
    """

    def __init__(self, app: Asgi, access: Access, limit: Callable[[str], int]):
        self.app, self.access, self.limit = app, access, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks anything else
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refused = self._refusal(scope, headers)
        if refused is not None:
            await refused(send)
            return
        await self._measured(scope, receive, _with_headers(send), headers)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Callable[[Send], Awaitable[None]] | None:
        """The answer to a request that goes no further; None: it may pass, its workspace is noted."""
        path, method, host = scope["path"], scope["method"], headers.get("host", "")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_URL:
            return refusal(414, "this address is too long")
        if not self.access.knows_host(host):
            return refusal(
                421, "this studio does not go by that name; open it by the address that `mast studio` printed"
            )
        origin = headers.get("origin")
        if method not in SAFE and origin is not None and origin.partition("://")[2] != host:
            return refusal(403, "this request comes from another web page; use the studio's own page")
        if path == "/" and method == "GET":
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
            if given and self.access.token_workspace(given[0]) is not None:
                return self._welcome(given[0])
        workspace = self.access.workspace(headers)
        if workspace is None:
            asked = {"www-authenticate": 'Basic realm="mast studio"'} if self.access.people else {}
            return refusal(
                401,
                "a token is needed; open the address with ?token= that `mast studio` printed, or send "
                "'Authorization: Bearer TOKEN'",
                **asked,
            )
        scope.setdefault("state", {})["workspace"] = workspace
        try:
            length = int(headers.get("content-length", "0"))
        except ValueError:
            return refusal(400, "Content-Length is no number")
        return self._too_large(path) if length > self.limit(path) else None

    def _welcome(self, token: str) -> Callable[[Send], Awaitable[None]]:
        """The page without the token in its address, where it could be seen and copied by mistake."""
        cookie = f"{self.access.cookie}={token}; HttpOnly; SameSite=Strict; Path=/"
        return refusal(303, "welcome", location="/", **{"set-cookie": cookie})

    def _too_large(self, path: str) -> Callable[[Send], Awaitable[None]]:
        most = self.limit(path)
        size = f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} kB"
        return refusal(413, f"this is too large; at most {size} are taken here", connection="close")

    async def _measured(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]) -> None:
        """Passes the request on, and counts what is sent with it: a length that was told may be a lie."""
        path, taken, whole, answered = scope["path"], 0, False, False

        async def counted() -> Message:
            nonlocal taken, whole, answered
            if whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), PATIENCE)
            except asyncio.TimeoutError:
                return {"type": "http.disconnect"}
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if taken > self.limit(path):
                answered = True
                await self._too_large(path)(send)
                raise BodyTooLarge
            return message

        async def once(message: Message) -> None:
            if not answered:
                await send(message)

        try:
            await self.app(scope, counted, once)
        except BodyTooLarge:
            pass


def refusal(status: int, sentence: str, **headers: str) -> Callable[[Send], Awaitable[None]]:
    """A whole answer: {"error": sentence}, with the headers that every answer has."""

    async def answer(send: Send) -> None:
        body = json.dumps({"error": sentence}).encode()
        named = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        lines = [(key.encode(), value.encode("latin-1")) for key, value in named.items()]
        await _with_headers(send)({"type": "http.response.start", "status": status, "headers": lines})
        await send({"type": "http.response.body", "body": body})

    return answer


def _with_headers(send: Send) -> Send:
    """Adds the headers above to every answer that does not bring its own."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {key.lower() for key, _ in message.get("headers", [])}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in there]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return sent
