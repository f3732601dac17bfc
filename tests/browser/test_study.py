"""The rating page in Chromium: ten people at once, keys alone, a phone, a server that dies, and axe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mast.study.answers import AnswerStore
from mast.study.folder import Study
from mast.study.quality import QualityRule
from mast.study.ratings import from_rows
from mast.study.report import build
from tests.browser.studio import PATIENCE
from tests.study.served import Served
from tests.study.small_study import small_study

METHODS = ("alpha", "beta")
PEOPLE = 10
Open = Callable[..., Any]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return small_study(tmp_path / "study", METHODS, (2, 3))


@pytest.fixture
def server(study: Study) -> Iterator[Served]:
    running = Served(study.folder, "--port", "0")
    yield running
    running.kill()


@pytest.fixture
def visit(browser: Any, server: Served) -> Iterator[Open]:
    """Opens a link as a person of their own does; an error in the page's scripts fails the test."""
    contexts, errors = [], []

    def opened(token: str | None, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{server.home}/" + ("" if token is None else f"?token={token}"))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


def invite(study: Study, count: int) -> list[tuple[str, str]]:
    store = AnswerStore(study)
    try:
        return store.invite([""] * count)
    finally:
        store.close()


def agree(page: Any) -> None:
    """From the consent to the first (practice) picture."""
    page.get_by_role("button", name="I agree").click()
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("heading", name="Practice").wait_for()


def heading(place: int) -> str:
    return "Practice" if place == 0 else f"Picture {place}"


def scored(method: str, k: int, person: int) -> int:
    """What a scripted person answers: beta is always better liked than alpha."""
    return 2 + METHODS.index(method) * 2 + (k + person) % 3


@pytest.mark.slow
def test_ten_people_at_once(visit: Open, study: Study):
    """Everybody answers a question, then everybody the next; what the report is made of is what they "
    "chose."""
    whose = {f"/pictures/{output.file}": output.method for _, output in study.outputs()}
    made = invite(study, PEOPLE)
    pages = [visit(token) for _, token in made]
    for page in pages:
        agree(page)
    expected: dict[str, list[tuple[str, int]]] = {code: [] for code, _ in made}
    for place in range(5):
        for page in pages:
            page.get_by_role("heading", name=heading(place), exact=place > 0).wait_for()
        shown = [page.locator("#result").get_attribute("src") for page in pages]
        for k in range(len(study.criteria)):
            for i, page in enumerate(pages):
                value = scored(whose[shown[i]], k, i) if place else 4
                page.keyboard.press(str(value))
                if place:
                    expected[made[i][0]].append((whose[shown[i]], value))
        for page in pages:
            page.locator('fieldset[data-state="saved"]').nth(5).wait_for()
            page.get_by_role("button", name="Finish" if place == 4 else "Next").click()
    for page in pages:
        page.get_by_role("heading", name="Thank you").wait_for()
    store = AnswerStore(study)
    rows = store.rows()
    assert all(one.participant.finished for one in store.standings())
    store.close()
    for code, given in expected.items():
        mine = [(row["method"], row["value"]) for row in rows if row["participant"] == code]
        assert mine == given
    report = build(from_rows(study, rows), QualityRule(("incomplete",)))
    means = {m: [v for of in expected.values() for name, v in of if name == m] for m in METHODS}
    for method, values in means.items():
        assert report.statistics.score(method).mean == pytest.approx(sum(values) / len(values))
    assert not report.simulated and report.statistics.score("beta").rank == 1


def test_back_forth_and_resumed_by_link(visit: Open, study: Study):
    ((_, token),) = invite(study, 1)
    page = visit(token)
    agree(page)
    for key in "444444":
        page.keyboard.press(key)
    page.get_by_role("button", name="Next").click()
    page.get_by_role("heading", name="Picture 1", exact=True).wait_for()
    page.keyboard.press("5")
    page.locator('fieldset[data-criterion="style"][data-state="saved"]').wait_for()
    page.get_by_role("button", name="Next").click()
    assert "still open: Content preservation" in page.locator("#saved").inner_text()
    page.get_by_role("button", name="Back").click()
    page.get_by_role("heading", name="Practice").wait_for()
    assert page.locator("input:checked").count() == 6
    other = visit(token)  # another device
    other.get_by_role("heading", name="Picture 1", exact=True).wait_for()
    assert other.locator('fieldset[data-criterion="style"] input:checked').get_attribute("value") == "5"
    assert "Picture 1 of 4" in other.locator("#progress").inner_text()
    other.get_by_role("button", name="Enlarge the result").click()
    assert other.get_by_role("dialog").is_visible()
    other.keyboard.press("Escape")
    other.get_by_role("button", name="Show the photo here").click()
    case = {output.file: case for case, output in study.outputs()}
    photos = {f"/pictures/{one.photo}" for one in case.values()}
    assert other.locator("#result").get_attribute("src") in photos


def test_answers_wait_for_a_server_that_comes_back(visit: Open, study: Study, server: Served):
    ((code, token),) = invite(study, 1)
    page = visit(token)
    agree(page)
    server.kill()
    page.keyboard.press("6")
    page.get_by_text("not saved yet; trying again").wait_for()
    assert page.locator('fieldset[data-state="saved"]').count() == 0, "nothing is confirmed that is not kept"
    again = Served(study.folder, "--port", str(server.port))
    try:
        page.locator('fieldset[data-criterion="style"][data-state="saved"]').wait_for()
    finally:
        again.kill()
    store = AnswerStore(study)
    assert store.answers(code) == {"practice": {"style": 6}}
    store.close()


def test_an_open_study_is_joined_from_its_first_page(browser: Any, study: Study):
    server = Served(study.folder, "--port", "0", "--open")
    context = browser.new_context()
    context.set_default_timeout(1000 * PATIENCE)
    try:
        page = context.new_page()
        page.goto(server.home)
        page.get_by_role("button", name="I agree").click()
        page.get_by_role("button", name="Begin").click()
        page.get_by_role("heading", name="Practice").wait_for()
        store = AnswerStore(study)
        assert [one.participant.number for one in store.standings()] == [0]
        store.close()
    finally:
        context.close()
        server.kill()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_a_phone_shows_everything(
    visit: Open, study: Study, server: Served, scheme: str
):
    from axe_playwright_python.sync_playwright import Axe

    ((_, token),) = invite(study, 1)
    phone = {"width": 390, "height": 844}
    page = visit(
        token, color_scheme=scheme, **({"viewport": phone, "has_touch": True} if scheme == "dark" else {})
    )
    found = {}

    def check(state: str) -> None:
        found[state] = [
            (one["id"], [n["html"][:160] for n in one["nodes"]])
            for one in Axe().run(page).response["violations"]
        ]
        wide, there = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= there, f"{state}: nothing sticks out at the side"

    page.get_by_role("button", name="I agree").wait_for()
    check("consent")
    page.get_by_role("button", name="I agree").click()
    page.get_by_role("button", name="Begin").wait_for()
    check("instructions")
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("heading", name="Practice").wait_for()
    for i, number in enumerate(("1", "7", "4")):
        page.locator("fieldset").nth(i).locator(f'input[value="{number}"]').check()
    page.locator('fieldset[data-state="saved"]').nth(2).wait_for()
    check("rating")
    sizes = page.locator(".choices label").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().height)"
    )
    assert min(sizes) >= (44 if scheme == "dark" else 24), "large enough for a finger"
    page.get_by_role("button", name="Enlarge the result").click()
    check("enlarged")
    page.keyboard.press("Escape")
    page.goto(f"{server.home}/?token={server.token}")
    page.get_by_role("table").wait_for()
    check("researcher")
    assert found == {state: [] for state in found}
