"""The rating server: who sees what, what is kept, and what is refused."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mast.study.answers import PRACTICE, AnswerStore
from mast.study.folder import Study
from mast.study.order import shown_order
from mast.study.ratings import from_rows
from mast.study.server import PAGE, Rules
from tests.study.served import COOKIE, TOKEN, Client, in_thread
from tests.study.small_study import METHODS, small_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return small_study(tmp_path_factory.mktemp("study") / "s", METHODS[:3], (2,))


@pytest.fixture(scope="module")
def server(study: Study) -> Iterator[tuple[int, AnswerStore]]:
    with in_thread(study, Rules()) as running:
        yield running


@pytest.fixture
def invited(server) -> Client:
    """Somebody with a link of their own, who has not agreed yet."""
    port, store = server
    return Client(port, store.invite(["somebody"])[0][1])


@pytest.fixture
def person(invited: Client) -> Client:
    assert invited.ask("/api/consent", {}).status == 200
    return invited


def test_without_a_link_nothing_is_told_but_the_title(server, study):
    visitor = Client(server[0])
    start = visitor.ask("/api/start")
    assert start.json == {"role": "visitor", "title": study.title, "open": False}
    file = next(iter(study.hashes))
    for path in ("/api/session", f"/pictures/{file}", "/api/people", "/api/answers.csv"):
        refused = visitor.ask(path)
        assert refused.status == 401 and refused.json["error"], path
    for path in ("/api/consent", "/api/answers", "/api/finish"):
        assert visitor.ask(path, {}).status == 401, path
    assert visitor.ask("/api/join", {}).status == 403
    assert Client(server[0], "guessed-token").ask("/api/session").status == 401
    assert visitor.ask("/").status == 200, "the page itself says what to do"


def test_a_link_becomes_a_cookie_that_scripts_cannot_read(server, invited):
    visitor = Client(server[0])
    arrived = visitor.ask(f"/?token={invited.token}")
    assert arrived.status == 303 and arrived.headers["location"] == "/"
    cookie = arrived.headers["set-cookie"]
    assert (
        cookie.startswith(f"{COOKIE}={invited.token};")
        and "HttpOnly" in cookie
        and "SameSite=Strict" in cookie
    )
    back = visitor.ask("/api/session", Cookie=f"{COOKIE}={invited.token}")
    assert back.status == 200 and back.json["link"].endswith(f"/?token={invited.token}")
    assert visitor.ask("/?token=wrong").status == 200


def test_nothing_tells_whose_a_picture_is(server, study, person):
    said = b"".join(
        [person.ask(path).body for path in ("/", "/api/start", "/api/session")]
        + [path.read_bytes() for path in PAGE.iterdir()]
    ).decode()
    for case in study.cases:
        assert case.sample not in said
    for method in study.methods:
        assert not re.search(rf"\b{method}\b", said), method
    items = person.ask("/api/session").json["items"]
    for item in items:
        reply = person.ask(item["picture"])
        assert reply.status == 200 and reply.headers["content-type"] == "image/png"
        assert b"tEXt" not in reply.body and b"iTXt" not in reply.body and b"eXIf" not in reply.body
    for path in ("/study.json", "/pictures/study.json", "/pictures/..%2fstudy.json",
    "/page/..%2f..%2fstudy.json",
                 "/page/../server.py", "/answers.sqlite", "/researcher-token"):  # fmt: skip
        reply = person.ask(path)
        assert reply.status == 404 and reply.json["error"], path


def test_everybody_has_their_own_order_and_their_own_answers(server, study):
    port, store = server
    people = [Client(port, token) for _, token in store.invite(["", "", "", ""])]
    first = [one.ask("/api/session").json for one in people]
    assert all(not said["consented"] and "items" not in said for said in first)
    said = [one.ask("/api/consent", {}).json for one in people]
    orders = [[item["id"] for item in one["items"][1:]] for one in said]
    assert all(one["items"][0]["id"] == PRACTICE for one in said)
    assert len({tuple(order) for order in orders}) == 4
    numbers = [store.participant(one.token).number for one in people]  # type: ignore[arg-type,union-attr]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    for number, order in zip(numbers, orders, strict=True):
        assert order == [output.id for _, output in shown_order(study, number)]
    assert people[0].ask("/api/consent", {}).json["items"] == said[0]["items"], (
        "agreeing again changes nothing"
    )
    assert people[0].rate(orders[0][0], "style", 6).json["saved"] is True
    assert people[1].ask("/api/session").json["answers"] == {}
    assert people[0].ask("/api/session").json["answers"] == {orders[0][0]: {"style": 6}}


def test_an_answer_is_kept_before_it_is_confirmed_and_can_be_changed(server, study, person):
    picture = person.ask("/api/session").json["items"][1]["id"]
    assert person.rate(picture, "style", 3, 12.5).status == 200
    other = AnswerStore(study)  # another process would see the same
    code = person.ask("/api/session").json["code"]
    assert other.answers(code) == {picture: {"style": 3}}
    assert person.rate(picture, "style", 5, 4.0).status == 200
    assert other.answers(code) == {picture: {"style": 5}}
    assert other.seconds(code) == {picture: 12.5}
    row = next(row for row in other.rows() if row["participant"] == code)
    assert row["changes"] == 1 and row["value"] == 5
    other.close()


def test_what_is_no_answer_is_refused(server, invited):
    assert invited.rate("0" * 16, "style", 3).status == 403, "before the consent"
    items = invited.ask("/api/consent", {}).json["items"]
    picture = items[1]["id"]
    for given, status in [
        ({"picture": "nothing", "criterion": "style", "value": 3, "seconds": 1}, 404),
        ({"picture": picture, "criterion": "beauty", "value": 3, "seconds": 1}, 404),
        ({"picture": picture, "criterion": "style", "value": 8, "seconds": 1}, 400),
        ({"picture": picture, "criterion": "style", "value": 0, "seconds": 1}, 400),
        ({"picture": picture, "criterion": "style", "value": True, "seconds": 1}, 400),
        ({"picture": picture, "criterion": "style", "value": "3", "seconds": 1}, 400),
        ({"picture": picture, "criterion": "style", "value": 3}, 400),
        ({"picture": [picture], "criterion": {}, "value": 3, "seconds": 1}, 404),
        ([1, 2], 400),
        (b"{", 400),
        (b'{"picture": NaN}', 400),
        (b" " * 20_000, 413),
    ]:
        refused = invited.ask("/api/answers", given)
        assert (refused.status, bool(refused.json["error"])) == (status, True), given
    assert invited.ask("/api/session").json["answers"] == {}
    assert invited.ask("/api/nothing").status == 404 and invited.ask("/api/answers").status == 405


def test_the_end_is_reached_when_every_question_is_answered(server, study, person):
    session = person.ask("/api/session").json
    pictures = [item["id"] for item in session["items"] if item["id"] != PRACTICE]
    for picture in pictures:
        for criterion in study.criteria:
            assert person.ask("/api/finish", {}).status == 409
            assert person.rate(picture, criterion.name, 4).status == 200
    assert person.ask("/api/finish", {}).json == {"finished": True}
    assert person.ask("/api/session").json["finished"] is True


def test_answers_are_the_researchers(server, study, person):
    items = person.ask("/api/session").json["items"]
    person.rate(PRACTICE, "style", 1)
    person.rate(items[1]["id"], "style", 7)
    for path in ("/api/answers.csv", "/api/people"):
        assert person.ask(path).status == 401
    researcher = Client(server[0], TOKEN)
    export = researcher.ask("/api/answers.csv")
    assert export.status == 200 and "attachment" in export.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(export.body.decode())))
    code = person.ask("/api/session").json["code"]
    mine = [row for row in rows if row["participant"] == code]
    assert [(row["picture"], row["value"], row["place"]) for row in mine] == [(items[1]["id"], "7", "1")]
    assert PRACTICE not in {row["picture"] for row in rows}
    assert person.token not in export.body.decode()
    ratings = from_rows(study, rows)
    assert not ratings.simulated and code in ratings.people
    people = researcher.ask("/api/people").json
    assert next(one for one in people["people"] if one["code"] == code)["answers"] == 1
    assert researcher.ask("/api/session").status == 401, "the researcher is no participant"
    assert researcher.rate(items[1]["id"], "style", 1).status == 401
    assert researcher.ask("/api/start").json["role"] == "researcher"


def test_who_withdraws_is_gone(server, person):
    _, store = server
    session = person.ask("/api/session").json
    person.rate(session["items"][1]["id"], "style", 7)
    assert store.withdraw(session["code"]) == 1
    assert person.ask("/api/session").status == 401
    assert person.rate(session["items"][1]["id"], "style", 7).status == 401
    assert session["code"] not in {row["participant"] for row in store.rows()}


def test_other_pages_and_other_names_are_kept_out(server, person):
    assert person.ask("/", Host="evil.example").status == 421
    assert person.ask("/api/consent", {}, Origin="http://evil.example").status == 403
    page = person.ask("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff" and page.headers["cache-control"] == "no-store"
    html = page.body.decode()
    assert not re.search(r"<script(?![^>]*src=)|\sstyle=|\son\w+=|https?://", html)


def test_an_open_study_takes_so_many_and_no_more(tmp_path: Path):
    study = small_study(tmp_path / "open", METHODS[:2], (2,))
    (study.folder / "texts" / "consent.md").write_text("# Hello\n\n<script>alert(1)</script> *you*\n")
    with in_thread(study, Rules(open=True, most=2)) as (port, _):
        visitor = Client(port)
        consent = visitor.ask("/api/start").json["texts"]["consent"]
        assert "<h1>Hello</h1>" in consent and "<em>you</em>" in consent and "<script>" not in consent
        links = [visitor.ask("/api/join", {}).json["link"] for _ in range(2)]
        assert len(set(links)) == 2
        assert visitor.ask("/api/join", {}).status == 429
        joined = Client(port, links[0].partition("token=")[2])
        assert joined.ask("/api/consent", {}).status == 200
