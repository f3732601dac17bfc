"""mast stylize --server URL: a studio elsewhere paints, with its model and on its machine; the picture comes
back with a record that names the files here, so that it is replayed like any other.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from ..files import shown
from ..job import Cancelled, InputError, OnStep, Progress, Result
from .options import RunOptions

if TYPE_CHECKING:
    from ..job import ImageLike
    from ..pipeline import JobInputs

SILENCE = 60.0  # seconds without a word, or a heartbeat, after which the line is taken for dead
TRIES = 5  # to reach a server again that answered before
SENT = ("preset", "size", "steps", "inversion", "coarse", "refine", "fit", "keep_unassigned", "composite")
OURS = {"model": "preview", "device": "auto", "dtype": "auto", "prediction_type": None, "features": None}


class RemoteStudio:
    """A studio by its address, as `mast studio` prints it; the token is in it, or in MAST_TOKEN."""

    def __init__(self, address: str, run: RunOptions):
        for name, usual in OURS.items():
            if getattr(run, name) != usual:
                raise InputError(f"--{name.replace('_', '-')}: with --server that is the server's to choose")
        parts = urlsplit(address if "//" in address else f"http://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--server {address}: give the address that `mast studio` prints")
        self.home = f"{parts.scheme}://{parts.netloc}"
        token = parse_qs(parts.query).get("token", [os.environ.get("MAST_TOKEN", "")])[0]
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        near = parts.hostname in ("127.0.0.1", "localhost", "::1")
        self._open = build_opener(*([ProxyHandler({})] if near else [])).open
        self.call("GET", "/api/status")  # refused here, before anything is sent

    # -------------------------------------------------------------------------------------------- talking

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the studio answers; JSON is sent and read, and bytes as they are."""
        raw = isinstance(body, bytes)
        data = body if raw or body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if raw else "application/json"
        with self._asked(Request(self.home + path, data, {"Content-Type": kind}, method=method)) as answer:
            found = answer.read()
            return json.loads(found) if answer.headers.get_content_type() == "application/json" else found

    def _asked(self, request: Request) -> Any:
        for name, value in self._headers.items():
            request.add_header(name, value)
        try:
            return self._open(request, timeout=SILENCE)
        except HTTPError as error:
            try:
                said = json.loads(error.read())["error"]
            except (ValueError, KeyError, TypeError, OSError):
                said = f"it answers {error.code}"
            raise InputError(f"{self.home}: {said}") from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise Unanswered(
                f"{self.home}: no studio answers there ({reason}); start one with `mast studio`"
            ) from error

    # -------------------------------------------------------------------------------------------- painting

    def paint(
        self,
        inputs: JobInputs,
        method: str,
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
        told: OnStep,
    ) -> Result:
        """The result, as `mast.stylize` gives it. Ctrl-C cancels the job there."""
        job = inputs.job
        sent: dict[str, str] = {}
        request = {
            "photo": self._send(job.content, inputs, sent),
            "regions": [
                {
                    "name": shown(inputs.styles[i].name)[:100],
                    "style": self._send(region.style, inputs, sent),
                    "mask": None if region.mask is None else self._send(region.mask, inputs, sent),
                    "style_mask": None
                    if region.style_mask is None
                    else self._send(region.style_mask, inputs, sent),
                    "strength": region.strength,
                }
                for i, region in enumerate(job.regions)
            ],
            "method": method,
            "options": {name: list(v) if isinstance(v, tuple) else v for name, v in options.items()},
            "settings": {name: settings[name] for name in SENT if settings.get(name) is not None},
            "key": secrets.token_hex(16),  # sent twice, it is painted once
        }
        made = self.call("POST", "/api/jobs", request)
        try:
            made = self._followed(made, told)
        except BaseException:
            try:
                self.call("POST", f"/api/jobs/{made['id']}/cancel")
            except (InputError, OSError):
                pass
            raise
        if made["state"] == "cancelled":
            raise Cancelled
        if made["state"] != "done":
            raise InputError(f"{self.home}: {made['error']}")
        return self._fetched(made, inputs)

    def _send(self, image: ImageLike, inputs: JobInputs, sent: dict[str, str]) -> str:
        """Uploads a picture once; its id there."""
        name = str(image)
        if name not in sent:
            sent[name] = self.call("POST", "/api/images", _bytes(name, inputs))["id"]
        return sent[name]

    def _followed(self, job: dict[str, Any], told: OnStep) -> dict[str, Any]:
        """The job when it has ended; a line that breaks is taken up again."""
        tries = 0
        while True:
            try:
                for kind, data in self._events(job["id"]):
                    tries = 0
                    if kind == "progress" and data["progress"] is not None:
                        facts = {
                            key: data["progress"][key]
                            for key in ("stage", "done", "total", "level", "levels")
                        }
                        told(Progress(**facts, t=0))
                    elif kind == "state" and data["state"] in ("done", "failed", "cancelled"):
                        return data
            except (Unanswered, OSError):
                if (tries := tries + 1) > TRIES:
                    raise
            time.sleep(min(5.0, 0.2 * 2**tries))

    def _events(self, id: str) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._asked(Request(f"{self.home}/api/jobs/{id}/events")) as stream:
            kind = ""
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def _fetched(self, job: dict[str, Any], inputs: JobInputs) -> Result:
        from PIL import Image

        from ..files import parse_json
        from ..images import TEXT_KEY
        from ..images.decoding import decoded
        from ..pipeline.provenance import checked_record, method_from, provenance, settings_from

        data = self.call("GET", job["result"]["url"])
        with decoded(data, "picture") as opened:
            picture: Image.Image = opened.copy()
            record = checked_record(parse_json(opened.info.get(TEXT_KEY, ""), self.home), self.home)
        here = provenance(inputs, method_from(record), {}, settings_from(record))
        record |= {"content": here["content"], "regions": here["regions"]}
        return Result(picture, record, job["seconds"], job["notes"], (), inputs)


class Unanswered(InputError):
    """Nobody is there, now."""


def _bytes(name: str, inputs: JobInputs) -> bytes:
    """A file as it is; a part of one (a colour of a map, a layer) as a grey picture of its own."""
    from ..files import open_regular
    from ..regions.parts import NO_PICTURES, read_part, split_part

    path, part = split_part(name)
    if part is None and path.suffix.lower() not in NO_PICTURES:
        with open_regular(name) as file:
            return file.read()
    from PIL import Image

    mask = read_part(name, inputs.job.content, inputs.photo.size, "mask")
    data = io.BytesIO()
    Image.fromarray((mask * 255).round().astype("uint8")).save(data, format="PNG")
    return data.getvalue()
