"""The studio as an ASGI app: what can be chosen, how errors are said, the page; the other routes are in
routes.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from ..job import InputError, mast_version
from . import catalogue, pictures
from .desk import Desk
from .docs import documentation
from .routes import ERRORS, file_routes, image_routes, job_routes, segmenting_routes
from .safety import Access, Gate, Refused
from .schemas import StatusView
from .segmenting import missing

PAGE = Path(__file__).parent / "page"
TIDY = 600.0  # seconds between two rounds


def create_app(desk: Desk, access: Access) -> Gate:
    """The whole studio as an ASGI app, the gate in front. The desk opens when the server starts."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        desk.hub.loop = asyncio.get_running_loop()
        await asyncio.to_thread(desk.open)
        threading.Thread(target=desk.warm, daemon=True).start()
        tidying = asyncio.create_task(_tidy(desk))
        yield
        tidying.cancel()
        await asyncio.to_thread(desk.close)

    app = FastAPI(
        title="mast studio",
        version=mast_version(),
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        description="Paint regions of a photo in styles of their own. Send 'Authorization: Bearer TOKEN'.",
        responses=ERRORS,
    )
    _errors(app)
    _choices(app, desk)
    image_routes(app, desk)
    segmenting_routes(app, desk)
    job_routes(app, desk)
    file_routes(app, desk)

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(documentation(app.openapi()))

    app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    return Gate(app, access, desk.limits.of_body)


async def _tidy(desk: Desk) -> None:
    while True:
        await asyncio.sleep(TIDY)
        with suppress(OSError):
            await asyncio.to_thread(desk.tidy)


def _errors(app: FastAPI) -> None:
    """Every error is a sentence in JSON."""

    def said(status: int, sentence: str, **headers: str) -> JSONResponse:
        return JSONResponse({"error": sentence}, status, headers)

    @app.exception_handler(Refused)
    def refused(_: Request, error: Refused) -> JSONResponse:
        more = {"retry-after": "5"} if error.status == 429 else {}
        return said(error.status, error.sentence, **more)

    @app.exception_handler(InputError)
    def bad_input(_: Request, error: InputError) -> JSONResponse:
        return said(400, str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        return said(422, f"{place or 'the request'}: {first['msg']}; see /docs for what is taken")

    @app.exception_handler(HTTPException)
    def http(_: Request, error: HTTPException) -> JSONResponse:
        words = {
            404: "nothing is here; see /docs for what there is",
            405: "this cannot be done here; see /docs",
        }
        return said(
            error.status_code, words.get(error.status_code, str(error.detail)), **(error.headers or {})
        )

    @app.exception_handler(Exception)
    def ours(_: Request, error: Exception) -> JSONResponse:
        return said(500, f"the studio made a mistake ({type(error).__name__}); its window says more")


def _choices(app: FastAPI, desk: Desk) -> None:
    @app.get("/api/status", response_model=StatusView)
    def status() -> Any:
        """How the studio is: its model, what finds objects, how long the queue is."""
        model, lack = desk.queue.model, missing()
        return {
            "version": mast_version(),
            "model": {"name": Path(model.name).name, "state": model.state, "message": model.message},
            "segmenter": {"available": lack is None, "message": lack or "ready"},
            "queue": len(desk.store.active()),
        }

    @app.get("/api/examples")
    def examples() -> dict[str, Any]:
        """The bundled photos with regions drawn on them, and the bundled paintings."""
        return pictures.examples()

    @app.get("/api/methods")
    def methods() -> list[dict[str, Any]]:
        """The methods that a job's `method` takes."""
        return catalogue.methods()

    @app.get("/api/parameters")
    def parameters() -> dict[str, Any]:
        """Presets, and what can be set beside them."""
        return catalogue.parameters(desk.queue.model.defaults)
