"""The rating server: a participant's link opens their session and nothing else; the researcher's, the
answers.

It stands behind the studio's gate (studio/safety.py). Who asks is the "workspace" that the gate notes: a
visitor, a participant by their code, or the researcher.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import parse_json
from ..job import InputError
from ..studio.listening import kept_token
from ..studio.safety import Access, Asgi, Gate, Refused, cookies
from ..tables import comma_separated
from .answers import PRACTICE, AnswerStore, Participant
from .folder import TEXT_NAMES, Study, StudyCase, read_text
from .order import shown_order
from .ratings import COLUMNS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

VISITOR, RESEARCHER, PERSON = "visitor", "researcher", "person:"
COOKIE = "mast_study"
TOKEN_FILE = "researcher-token"
PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
LARGEST_REQUEST = 16 << 10  # bytes; an answer is a hundred
LONGEST_LOOK = 86_400.0  # seconds on one picture that are believed
KEEP = {"cache-control": "private, max-age=86400, immutable"}  # pictures never change under their name


@dataclass(frozen=True)
class Rules:
    """Who may take part. open: anybody who finds the page, up to `most` people; address: what links begin
    with."""

    open: bool = False
    most: int = 500
    address: str | None = None


@dataclass(frozen=True)
class StudyAccess(Access):
    """Participants' tokens beside the researcher's; without any, one is a visitor, who sees the first page
    only."""

    store: AnswerStore = field(kw_only=True)

    def token_workspace(self, given: str) -> str | None:
        if super().token_workspace(given) is not None:
            return RESEARCHER
        found = self.store.participant(given)
        return None if found is None else f"{PERSON}{found.code}"

    def workspace(self, headers: Any) -> str | None:
        return super().workspace(headers) or VISITOR


def researcher_token(study: Study) -> str:
    """The researcher's key, made once and kept in the study's folder, readable by its owner alone."""
    return kept_token(study.folder / TOKEN_FILE, "the folder must be writable")


# ------------------------------------------------------------------------------------------------ sessions


class Sessions:
    """What every request comes to, without the web around it."""

    def __init__(self, study: Study, store: AnswerStore, rules: Rules) -> None:
        self.study, self.store, self.rules = study, store, rules
        self.rated = frozenset(output.id for _, output in study.outputs())
        self.criteria = frozenset(one.name for one in study.criteria)

    def start(self, role: str) -> dict[str, Any]:
        """What the first page needs; a visitor of a study by invitation is told no more than its title."""
        found: dict[str, Any] = {"role": role, "title": self.study.title, "open": self.rules.open}
        if role == "participant" or (role == VISITOR and self.rules.open):
            found["texts"] = {name: rendered(read_text(self.study, name)) for name in TEXT_NAMES}
            found["scale"] = self.study.scale
            found["criteria"] = [vars(one) for one in self.study.criteria]
            found["pictures"] = len(self.rated)
        return found

    def join(self) -> str:
        """A new participant's token."""
        if not self.rules.open:
            raise Refused(403, "this study is by invitation; ask the researcher for a link")
        if self.store.count() >= self.rules.most:
            raise Refused(429, "this study has all the participants it can take; thank you for your interest")
        return self.store.invite([""])[0][1]

    def session(self, who: Participant, link: str) -> dict[str, Any]:
        """A participant's own pictures in their own order, and what they answered so far."""
        found: dict[str, Any] = {"code": who.code, "link": link, "consented": who.consented is not None}
        if who.number is None:
            return found
        practice = self.study.practice
        items = [{"id": PRACTICE, "case": practice.name, "picture": _url(practice.outputs[0].file)}]
        for case, output in shown_order(self.study, who.number):
            items.append({"id": output.id, "case": case.name, "picture": _url(output.file)})
        return {
            **found,
            "items": items,
            "cases": {case.name: _shown_case(case) for case in (practice, *self.study.cases)},
            "answers": self.store.answers(who.code),
            "seconds": self.store.seconds(who.code),
            "finished": who.finished is not None,
        }

    def save(self, who: Participant, given: Any) -> dict[str, Any]:
        """Keeps one answer; what is returned says that it is on the disk."""
        if who.number is None:
            raise Refused(403, "agree to take part first")
        if not isinstance(given, dict):
            raise Refused(400, "an answer is an object with picture, criterion, value and seconds")
        picture, criterion, value, seconds = (
            given.get(k) for k in ("picture", "criterion", "value", "seconds")
        )
        if not isinstance(picture, str) or (picture not in self.rated and picture != PRACTICE):
            raise Refused(404, "no such picture in this study")
        if not isinstance(criterion, str) or criterion not in self.criteria:
            raise Refused(404, "no such question in this study")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= self.study.points:
            raise Refused(400, f"the value must be a whole number from 1 to {self.study.points}")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
            raise Refused(400, "seconds must be a number")
        try:
            self.store.save(who.code, picture, criterion, value, min(max(float(seconds), 0.0), LONGEST_LOOK))
        except sqlite3.IntegrityError as error:
            raise Refused(401, "this participant has been removed from the study") from error
        except sqlite3.Error as error:
            raise Refused(503, f"the answer could not be saved ({error}); it will be tried again") from error
        return {"saved": True, "picture": picture, "criterion": criterion, "value": value}

    def finish(self, who: Participant) -> dict[str, Any]:
        given = self.store.answers(who.code)
        open_ = sum(len(self.criteria - given.get(id, {}).keys()) for id in self.rated)
        if open_:
            raise Refused(409, f"{open_} questions are still open")
        self.store.finish(who.code)
        return {"finished": True}

    def people(self) -> dict[str, Any]:
        """For the researcher: how far everybody is."""
        return {
            "questions": len(self.rated) * len(self.criteria),
            "people": [{**vars(one.participant), "answers": one.answers} for one in self.store.standings()],
        }


def rendered(markdown: str) -> str:
    """HTML of the researcher's Markdown; raw HTML in it is shown as text."""
    from markdown_it import MarkdownIt  # comes with rich

    return str(MarkdownIt("commonmark", {"html": False}).render(markdown))


def _url(file: str) -> str:
    return f"/pictures/{file}"


def _shown_case(case: StudyCase) -> dict[str, Any]:
    return {
        "photo": _url(case.photo),
        "overlay": _url(case.overlay),
        "regions": [{"name": r.name, "colour": r.colour, "style": _url(r.style)} for r in case.regions],
    }


# ------------------------------------------------------------------------------------------------ the web


def build_app(study: Study, access: StudyAccess, rules: Rules) -> Asgi:
    """The server, behind the gate."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.exceptions import HTTPException
        from starlette.responses import FileResponse, JSONResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise InputError("the rating server needs starlette: pip install 'mast[study]'") from error
    store = access.store
    sessions = Sessions(study, store, rules)
    pages = {path.name: path for path in PAGE.iterdir() if path.suffix in KINDS}

    def role(request: Request) -> str:
        who = str(request.state.workspace)
        return "participant" if who.startswith(PERSON) else who

    def participant(request: Request) -> tuple[Participant, str]:
        """Who asks, as the database has them now, and their token."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        mine = (
            given.strip()
            if kind.lower() == "bearer"
            else cookies(request.headers.get("cookie", "")).get(access.cookie, "")
        )
        found = store.participant(mine) if role(request) == "participant" else None
        if found is None:
            raise Refused(401, "a participant's link is needed; open the one you were given")
        return found, mine

    def researcher(request: Request) -> None:
        if role(request) != RESEARCHER:
            raise Refused(401, "the researcher's token is needed; mast study serve prints it")

    def link(request: Request, mine: str) -> str:
        base = rules.address or f"{request.url.scheme}://{request.headers.get('host', '')}"
        return f"{base.rstrip('/')}/?token={mine}"

    async def sent(request: Request) -> Any:
        try:
            return parse_json(await request.body(), "the request", LARGEST_REQUEST)
        except InputError as error:
            raise Refused(400, str(error)) from error

    def asset(path: Path) -> Response:
        return FileResponse(path, media_type=KINDS[path.suffix])

    async def index(request: Request) -> Response:
        return asset(pages["index.html"])

    async def page(request: Request) -> Response:
        path = pages.get(request.path_params["file"])
        if path is None:
            raise Refused(404, "no such file")
        return asset(path)

    async def picture(request: Request) -> Response:
        file = request.path_params["file"]
        if role(request) == VISITOR:
            raise Refused(401, "a participant's link is needed; open the one you were given")
        if file not in study.hashes:
            raise Refused(404, "no such picture in this study")
        return FileResponse(study.picture(file), media_type="image/png", headers=KEEP)

    async def start(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(sessions.start, role(request)))

    async def join(request: Request) -> Response:
        return JSONResponse({"link": f"/?token={await run_in_threadpool(sessions.join)}"}, 201)

    async def session(request: Request) -> Response:
        who, mine = await run_in_threadpool(participant, request)
        return JSONResponse(await run_in_threadpool(sessions.session, who, link(request, mine)))

    async def consent(request: Request) -> Response:
        who, mine = await run_in_threadpool(participant, request)
        await run_in_threadpool(store.consent, who.code)
        who, mine = await run_in_threadpool(participant, request)
        return JSONResponse(await run_in_threadpool(sessions.session, who, link(request, mine)))

    async def answer(request: Request) -> Response:
        given = await sent(request)
        who, _ = await run_in_threadpool(participant, request)
        return JSONResponse(await run_in_threadpool(sessions.save, who, given))

    async def finish(request: Request) -> Response:
        who, _ = await run_in_threadpool(participant, request)
        return JSONResponse(await run_in_threadpool(sessions.finish, who))

    async def people(request: Request) -> Response:
        researcher(request)
        return JSONResponse(await run_in_threadpool(sessions.people))

    async def export(request: Request) -> Response:
        researcher(request)
        text = comma_separated(COLUMNS, await run_in_threadpool(store.rows))
        saved = {"content-disposition": 'attachment; filename="answers.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=saved)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return JSONResponse({"error": error.sentence}, error.status)

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {404: "there is nothing at this address", 405: "this address does not take such a request"}
        return JSONResponse({"error": said.get(error.status_code, str(error.detail))}, error.status_code)

    async def wrong(request: Request, error: Exception) -> Response:
        return JSONResponse(
            {
                "error": str(error)
                if isinstance(error, InputError)
                else "something went wrong here; try again"
            },
            500,
        )

    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        Refused: refused, HTTPException: unknown, InputError: wrong, Exception: wrong
    }  # fmt: skip
    routes = [
        Route("/", index),
        Route("/page/{file}", page),
        Route("/pictures/{file}", picture),
        Route("/api/start", start),
        Route("/api/join", join, methods=["POST"]),
        Route("/api/session", session),
        Route("/api/consent", consent, methods=["POST"]),
        Route("/api/answers", answer, methods=["POST"]),
        Route("/api/finish", finish, methods=["POST"]),
        Route("/api/people", people),
        Route("/api/answers.csv", export),
    ]
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Gate(app, access, lambda path: LARGEST_REQUEST)
