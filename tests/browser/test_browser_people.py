"""Every screen and every hand: phones, keys alone, screen readers, dark and light."""

from __future__ import annotations

import pytest

PHONE = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}


def test_a_phone_shows_everything_and_paints(open_table):
    table = open_table(**PHONE).example("raccoon")
    wide = "() => [document.documentElement.scrollWidth, innerWidth]"
    needed, there = table.page.evaluate(wide)
    assert needed <= there, "nothing sticks out at the side"
    before = table.shares()
    table.page.locator("[data-tool=brush]").tap()
    table.page.get_by_role("textbox", name="Name of the region").last.focus()
    table.page.click("#add-region")
    table.page.locator("#stage").scroll_into_view_if_needed()
    table.page.touchscreen.tap(*table.point(0.5, 0.5))
    table.expect(table.regions).to_have_count(len(before) + 1)
    table.expect(table.regions.nth(len(before) - 1).locator(".share")).not_to_have_text("0 %")
    table.page.locator("#undo").tap()
    table.page.locator("#undo").tap()
    table.expect(table.regions).to_have_count(len(before))
    table.expect(table.page.locator("#draft")).to_be_in_viewport()
    table.page.locator("#draft").tap()
    table.painted()
    needed, there = table.page.evaluate(wide)
    assert needed <= there


def test_keys_alone_are_enough(table):
    page, keys = table.page, table.page.keyboard
    table.ready()
    page.locator("#welcome-open").focus()
    keys.press("Tab")
    assert page.evaluate("() => document.activeElement.innerText.trim()") == "cat"
    keys.press("Enter")
    table.expect(table.regions.first).to_be_visible()

    table.canvas.focus()
    keys.press("n")
    table.expect(table.regions).to_have_count(3)
    table.canvas.focus()
    for _ in range(4):
        keys.press("ArrowLeft")
    keys.press("Enter")
    table.expect(table.regions.nth(1).locator(".share")).not_to_have_text("0 %")
    keys.press("Control+z")
    keys.press("Control+z")
    table.expect(table.regions).to_have_count(2)

    keys.press("Shift+?")
    table.expect(page.locator("#shortcuts")).to_be_visible()
    keys.press("Escape")
    table.expect(page.locator("#shortcuts")).to_be_hidden()
    page.locator(".painting").first.focus()
    keys.press("Enter")
    table.expect(page.locator("#gallery")).to_be_visible()
    page.locator("#gallery .tile", has_text="woodcut").focus()
    keys.press("Enter")
    table.expect(page.locator(".painting").first).to_have_text("woodcut")

    table.canvas.focus()
    keys.press("d")
    table.painted()
    page.locator("#split").focus()
    keys.press("ArrowRight")
    assert page.locator("#split").input_value() == "51"
    ring = page.evaluate("() => getComputedStyle(document.querySelector('#draft'), null).outlineStyle")
    assert ring == "none"
    page.locator("#help").focus()
    keys.press("Tab")
    shown = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert shown == "solid", "the focus can be seen"


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_axe_finds_nothing(open_table, scheme: str):
    from axe_playwright_python.sync_playwright import Axe

    table = open_table(color_scheme=scheme).ready()
    page, found = table.page, {}

    def check(state: str) -> None:
        found[state] = [
            (broken["id"], [node["html"][:160] for node in broken["nodes"]])
            for broken in Axe().run(page).response["violations"]
        ]

    check("welcome")
    table.example("coffee")
    page.locator("#fold summary").click()
    check("regions")
    page.locator(".painting").first.click()
    check("gallery")
    page.keyboard.press("Escape")
    page.locator("#help").click()
    check("help")
    page.keyboard.press("Escape")
    page.click("#draft")
    table.painting()
    check("progress")
    table.painted()
    check("result")
    assert found == {state: [] for state in found}
