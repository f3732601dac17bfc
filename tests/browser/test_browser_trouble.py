"""What goes wrong, and what must not be lost by it."""

from __future__ import annotations

import re
from pathlib import Path


def test_a_run_is_cancelled_half_way(table):
    table.example("cat")
    table.set({"steps": "100", "size": "256"})
    table.page.click("#paint")
    table.painting()
    table.page.click("#cancel")
    table.says("Cancelled")
    table.expect(table.progress).to_be_hidden()
    job = table.studio.jobs()[0]
    assert job["state"] == "cancelled" and job["result"] is None
    table.expect(table.past.first).to_have_class(re.compile("cancelled"))
    assert table.view() == "edit"


def test_a_broken_picture_is_refused_in_words_and_the_table_stays(
    table, files: dict[str, Path], tmp_path: Path
):
    table.open_photo(files["meadow"])
    table.drag((0.4, 0.4), (0.5, 0.6))
    torn = tmp_path / "torn.png"
    torn.write_bytes(files["fresco"].read_bytes()[:60])
    drawing = tmp_path / "drawing.svg"
    drawing.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    for path in (torn, drawing):
        table.page.set_input_files("#photo-file", str(path))
        table.expect(table.page.get_by_role("alert").filter(has_text=path.name)).to_be_visible()
    table.drop(torn, ".region")
    table.expect(table.page.get_by_role("alert").filter(has_text="torn.png")).to_be_visible()
    assert table.regions.count() == 1 and table.shares()[0] > 0, "what was there is still there"


def test_two_tabs_paint_at_the_same_time(open_table):
    one = open_table().example("cat")
    two = open_table(one.page.context).ready()
    open_other(two, "coffee")
    known = {job["id"] for job in one.studio.jobs()}
    for table in (one, two):
        table.set({"steps": "4", "size": "128"})
        table.page.click("#paint")
    for table in (one, two):
        table.painted()
    made = [job for job in one.studio.jobs() if job["id"] not in known]
    assert {job["request"]["photo"] for job in made} == {"example-cat", "example-coffee"}
    assert [job["state"] for job in made] == ["done", "done"]
    shown = {table.page.locator("#actions a").first.get_attribute("href") for table in (one, two)}
    assert shown == {job["result"]["url"].removeprefix("/") for job in made}, "each shows its own"
    one.page.reload()
    one.ready_again()
    assert one.past.count() >= 2

    one.page.locator("[data-view=compare]").click()
    one.expect(one.page.locator("#compare-left option")).not_to_have_count(0)
    assert one.page.locator("#compare-left").input_value() != one.page.locator("#compare-right").input_value()


def open_other(table, name: str) -> None:
    table.page.click("#open-examples")
    table.page.locator("#examples-list .tile", has_text=name).click()
    table.expect(table.page.locator("#examples")).to_be_hidden()
    table.expect(table.regions).to_have_count(3)


def test_a_studio_killed_in_the_middle_goes_on_and_its_history_is_there(table, open_table):
    table.example("coffee")
    table.set({"steps": "4", "size": "128"})
    table.page.click("#paint")
    table.painted()
    finished = table.studio.jobs()[0]

    table.page.locator("[data-view=edit]").click()
    table.set({"steps": "100", "size": "256"})
    table.page.click("#paint")
    table.painting()
    started = table.studio.jobs()[0]
    assert started["state"] == "running"
    table.studio.kill()
    table.expect(table.page.locator("#progress-text")).to_contain_text("does not answer")
    table.studio.start()

    table.painting()  # the same page follows the same job, begun again
    again = table.studio.until(
        lambda: next(
            job for job in table.studio.jobs() if job["id"] == started["id"] and job["state"] == "running"
        ),
        "the job under way starts again",
    )
    assert again["request"] == started["request"]
    table.page.click("#cancel")
    table.says("Cancelled")

    other = open_table()  # another browser of the same workspace
    other.ready()
    old = other.page.get_by_role("button", name=re.compile("Open again.*fullcup, plate, the rest")).nth(1)
    old.click()
    other.painted()
    assert other.page.locator("#actions a").first.get_attribute("href") == finished["result"][
        "url"
    ].removeprefix("/")
    names = [other.regions.nth(i).locator(".name").input_value() for i in range(other.regions.count())]
    assert names == ["fullcup", "plate", "the rest"]
    assert other.shares() == table.shares()
    assert other.page.locator("#p-steps").input_value() == "4", "the parameters are put back too"
