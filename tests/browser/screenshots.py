"""The pictures of docs/studio.md: `make screenshots`, with the embedded model.

Every state of the page as a person sees it, on a desk and on a phone, dark and light.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from mast.files import cache_folder
from tests.browser.studio import TOKEN, Studio
from tests.browser.table import Table

QUALITY = 86  # of the pictures, which are to be under 200 kB each
LONG = 900.0  # seconds for a picture at full size on a slow machine
DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}


@contextmanager
def table(browser: Any, studio: Studio, **options: Any) -> Iterator[Table]:
    context = browser.new_context(locale="en-GB", **options)
    context.set_default_timeout(1000 * LONG)
    page = context.new_page()
    page.goto(f"{studio.home}/?token={TOKEN}")
    yield Table(page, studio, LONG).ready()
    context.close()


def main(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    def keep(on: Table, name: str) -> None:
        on.page.wait_for_timeout(700)  # colours settle
        for image in on.page.locator("img:visible").all():
            image.evaluate("image => image.decode()")  # it is there
        path = folder / f"studio-{name}.webp"
        Image.open(io.BytesIO(on.page.screenshot())).convert("RGB").save(path, quality=QUALITY, method=6)
        print(f"{path.name}: {path.stat().st_size // 1000} kB", flush=True)

    with TemporaryDirectory() as data, sync_playwright() as driver:
        studio = Studio("preview", Path(data), cache_folder())
        browser = driver.chromium.launch(
            executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"), args=["--no-sandbox"]
        )
        try:
            studio.start()
            with table(browser, studio, color_scheme="dark", **DESK) as on:
                keep(on, "welcome")
                dark(on, keep)
            with table(browser, studio, color_scheme="light", **DESK) as on:
                light(on, keep)
            with table(browser, studio, color_scheme="dark", **PHONE) as on:
                phone(on, keep)
        finally:
            browser.close()
            studio.stop()


def dark(on: Table, keep: Any) -> None:
    on.example("astronaut")
    keep(on, "regions")
    on.page.click("#open-examples")
    on.page.locator("#examples-list .tile", has_text="cat").click()
    on.expect(on.regions).to_have_count(2)
    on.page.locator(".painting").first.click()
    on.expect(on.page.locator("#gallery .tile")).to_have_count(14)
    keep(on, "gallery")
    on.page.keyboard.press("Escape")
    on.page.click("#draft")
    on.painted()
    on.page.locator("[data-view=edit]").click()
    on.regions.nth(1).locator("input[type=range]").fill("50")
    on.page.click("#paint")
    on.expect(on.page.locator("#under")).to_have_attribute("aria-pressed", "true")  # a preview is there
    on.expect(on.page.locator("#progress-text")).to_contain_text("Painting")
    keep(on, "progress")
    on.painted()
    keep(on, "result")
    on.page.locator("#masses .chip").first.click()
    keep(on, "mass")
    on.page.locator("[data-view=compare]").click()
    keep(on, "compare")


def light(on: Table, keep: Any) -> None:
    on.example("rocket")
    on.page.click("#find")
    on.expect(on.page.locator("#find-note")).to_have_text("")
    keep(on, "find")
    on.page.locator("#fold summary").click()
    on.page.locator("#fold").scroll_into_view_if_needed()
    on.page.set_input_files(
        "#photo-file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"no picture"}
    )
    on.expect(on.page.get_by_role("alert")).to_be_visible()
    keep(on, "parameters")
    on.page.locator("#fold summary").click()
    on.page.get_by_role("button", name="Put this message away").last.click()
    on.page.locator(".region .on, .region button[aria-label^='Use a part']").first.click()
    box = on.page.locator("#part-canvas").bounding_box()
    on.page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.1 * box["height"])
    on.page.mouse.down()
    on.page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    on.page.mouse.up()
    keep(on, "part")
    on.page.keyboard.press("Escape")
    on.page.locator("#help").click()
    keep(on, "help")


def phone(on: Table, keep: Any) -> None:
    on.example("raccoon")
    keep(on, "phone")
    on.page.locator("#draft").tap()
    on.painted()
    keep(on, "phone-result")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
