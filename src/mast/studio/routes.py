"""The routes of pictures, of finding objects, and of jobs. Each says what it takes and gives; the work is
done elsewhere, and not in the server's loop.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from PIL import Image
from starlette.background import BackgroundTask

from . import pictures
from .desk import Desk, pack
from .safety import Refused
from .schemas import (
    AutoRequest,
    BoxRequest,
    ClickRequest,
    ErrorView,
    FoundRegions,
    ImageView,
    JobList,
    JobRequest,
    JobView,
    MaskView,
)
from .segmenting import Unavailable

PICTURE = {"content-security-policy": "default-src 'none'; sandbox"}  # a file is shown, never run
FOREVER = {"cache-control": "private, max-age=31536000, immutable", **PICTURE}  # an id is its content
KEPT = {"cache-control": "private, max-age=86400", **PICTURE}

Id = Annotated[str, Path(pattern=r"^[0-9a-zA-Z-]{1,64}$")]
ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorView} for code in (400, 401, 403, 404, 405, 409, 413, 415, 421, 422, 429, 500)
}
FILES: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    200: {"content": {"image/*": {}, "application/zip": {}}, "description": "The file"},
}


def workspace(request: Request) -> str:
    """Whose request it is; the gate has found out."""
    return request.state.workspace


Whose = Annotated[str, Depends(workspace)]


def image_routes(app: FastAPI, desk: Desk) -> None:
    body = {"requestBody": {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}}

    @app.post("/api/images", status_code=201, response_model=ImageView, openapi_extra=body)
    async def upload(request: Request, whose: Whose) -> Any:
        """Takes one picture, a photo, a painting or a mask: its bytes are the request's body."""
        image = await pictures.receive(desk.store, whose, request.stream(), desk.limits)
        url = f"/api/images/{image.id}"
        return {"id": image.id, "width": image.width, "height": image.height, "url": url}

    @app.get("/api/images/{id}", response_class=Response, responses=FILES)
    def image(id: Id, whose: Whose, width: Annotated[int | None, Query(ge=1, le=4096)] = None) -> Response:
        """The picture; with `width` at most so many pixels wide."""
        data, kind = pictures.shown(pictures.find(desk.store, whose, id), width)
        return Response(data, media_type=kind, headers=FOREVER)


def segmenting_routes(app: FastAPI, desk: Desk) -> None:
    def ask(whose: str, photo: str, question: str, **how: Any) -> Any:
        found = pictures.find(desk.store, whose, photo, "photo")
        try:
            return desk.segmenting.ask(question, found.path, **how)
        except Unavailable as error:
            raise Refused(409, str(error)) from error
        except BlockingIOError as error:
            raise Refused(429, "too many photos are being looked at; try again in a moment") from error

    def kept(whose: str, mask: Any) -> dict[str, Any]:
        image = pictures.keep(desk.store, whose, Image.fromarray(mask))
        return {"mask": image.id, "share": round(float(mask.mean()) / 255, 4)}

    @app.post("/api/segment/click", response_model=MaskView)
    def click(request: ClickRequest, whose: Whose) -> Any:
        """The object at some points of a photo, as a mask."""
        at = tuple((x, y) for x, y, inside in request.points if inside)
        away = tuple((x, y) for x, y, inside in request.points if not inside)
        return kept(whose, ask(whose, request.photo, "select", at=at, away=away))

    @app.post("/api/segment/box", response_model=MaskView)
    def box(request: BoxRequest, whose: Whose) -> Any:
        """The object in a box, as a mask."""
        return kept(whose, ask(whose, request.photo, "select", box=request.box))

    @app.post("/api/segment/auto", response_model=FoundRegions)
    def auto(request: AutoRequest, whose: Whose) -> Any:
        """Regions that tile a photo: n - 1 objects and a background."""
        names, masks, notes = ask(whose, request.photo, "divide", n=request.n)
        found = [{"name": name, **kept(whose, mask)} for name, mask in zip(names, masks, strict=True)]
        return {"regions": found, "notes": notes}


def job_routes(app: FastAPI, desk: Desk) -> None:
    @app.post("/api/jobs", status_code=201, response_model=JobView)
    def submit(request: JobRequest, whose: Whose) -> Any:
        """A new job. The same request sent again with the same key is the same job."""
        return desk.view(desk.submit(whose, request.model_dump()))

    @app.get("/api/jobs", response_model=JobList)
    def jobs(
        whose: Whose,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        before: Annotated[str | None, Query(pattern=r"^[0-9a-zA-Z-]{1,64}$")] = None,
    ) -> Any:
        """The history, newest first; `before` goes on where a list ended."""
        return {"jobs": [desk.view(job) for job in desk.store.jobs(whose, limit, before)]}

    @app.get("/api/jobs/{id}", response_model=JobView)
    def job(id: Id, whose: Whose) -> Any:
        """A job as it is now."""
        return desk.view(desk.job(whose, id))

    @app.delete("/api/jobs/{id}", status_code=204, response_class=Response)
    def delete(id: Id, whose: Whose) -> Response:
        """Removes a job with all it has made."""
        desk.delete(whose, id)
        return Response(status_code=204)

    @app.post("/api/jobs/{id}/cancel", response_model=JobView)
    def cancel(id: Id, whose: Whose) -> Any:
        """A job that waits never begins, one that runs stops at the next step; one that has ended stays."""
        desk.queue.cancel(desk.job(whose, id))
        return desk.view(desk.job(whose, id))

    events: dict[int | str, dict[str, Any]] = {
        200: {"content": {"text/event-stream": {}}, "description": "Events: state, progress, preview"}
    }

    @app.get("/api/jobs/{id}/events", response_class=StreamingResponse, responses={**ERRORS, **events})
    async def listen(request: Request, id: Id, whose: Whose) -> StreamingResponse:
        """Server-sent events until the job has ended: `state` and `progress` with the job, `preview` with an
        address.
        """
        await asyncio.to_thread(desk.job, whose, id)
        if desk.hub.count >= desk.limits.streams:
            raise Refused(429, "too many listeners; close some pages, or ask for the job now and then")
        text = request.headers.get("last-event-id", "")
        last = int(text) if text.isdecimal() and len(text) < 10 else 0

        def now() -> dict[str, Any] | None:
            found = desk.store.job(whose, id)
            return None if found is None else desk.view(found)

        stream = desk.hub.stream(id, now, last)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def file_routes(app: FastAPI, desk: Desk) -> None:
    def file(whose: str, id: str, name: str, save_as: str | None = None) -> FileResponse:
        path = desk.file(whose, id, name)
        headers = {"cache-control": "no-store", **PICTURE} if name == "preview.jpg" else KEPT
        return FileResponse(path, filename=save_as, content_disposition_type="inline", headers=headers)

    @app.get("/api/jobs/{id}/preview", response_class=FileResponse, responses=FILES)
    def preview(id: Id, whose: Whose) -> FileResponse:
        """The picture as it is now, while a job runs."""
        return file(whose, id, "preview.jpg")

    @app.get("/api/jobs/{id}/result", response_class=FileResponse, responses=FILES)
    def result(id: Id, whose: Whose) -> FileResponse:
        """The picture, PNG, with its record inside."""
        return file(whose, id, "result.png", f"mast-{id[:8]}.png")

    @app.get("/api/jobs/{id}/sheet", response_class=FileResponse, responses=FILES)
    def sheet(id: Id, whose: Whose) -> FileResponse:
        """Photo, regions, paintings and result side by side."""
        return file(whose, id, "sheet.png", f"mast-{id[:8]}-sheet.png")

    @app.get("/api/jobs/{id}/thumbnail", response_class=FileResponse, responses=FILES)
    def thumbnail(id: Id, whose: Whose) -> FileResponse:
        """The picture, small."""
        return file(whose, id, "thumbnail.jpg")

    @app.get("/api/jobs/{id}/masses/{i}", response_class=FileResponse, responses=FILES)
    def masses(id: Id, i: Annotated[int, Path(ge=0, le=15)], whose: Whose) -> FileResponse:
        """Where the attention of the photo went to the painting of region i, counted from 0."""
        return file(whose, id, f"mass{i}.png")

    @app.get("/api/jobs/{id}/jobfile", response_class=FileResponse, responses=FILES)
    def jobfile(id: Id, whose: Whose) -> FileResponse:
        """A zip with the job file, all it reads, and the picture; `mast stylize job.toml` paints it again."""
        desk.file(whose, id, "job.toml")
        folder = desk.store.folder / "incoming"
        folder.mkdir(exist_ok=True, mode=0o700)
        target = folder / f"{secrets.token_hex(16)}.zip"
        pack(desk.store.job_folder(whose, id), target)
        return FileResponse(
            target,
            filename=f"mast-{id[:8]}.zip",
            headers={"cache-control": "no-store"},
            background=BackgroundTask(target.unlink, missing_ok=True),
        )
