"""The page as a person uses it, in a few words: every test reads as what somebody does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.browser.studio import PATIENCE, Studio


class Table:
    """One tab."""

    def __init__(self, page: Any, studio: Studio, patience: float = PATIENCE):
        from playwright.sync_api import expect

        expect.set_options(timeout=1000 * patience)
        self.page, self.studio, self.expect = page, studio, expect
        self.canvas = page.locator("#canvas")
        self.regions = page.locator("#regions .region")
        self.progress = page.locator("#progress")
        self.past = page.locator("#history .past")
        self.messages = page.locator("#messages")

    def ready(self) -> Table:
        """The model is loaded and the examples are there."""
        self.expect(self.page.locator("#model")).to_have_attribute("data-state", "ready")
        self.expect(self.page.locator("#welcome-examples .tile")).to_have_count(6)
        return self

    def ready_again(self) -> None:
        """After a reload: what lay on the table lies there again."""
        self.expect(self.regions.first).to_be_visible()
        self.expect(self.past.first).to_be_visible()

    def example(self, name: str) -> Table:
        self.ready()
        self.page.locator("#welcome-examples .tile", has_text=name).click()
        self.expect(self.regions.first).to_be_visible()
        return self

    def open_photo(self, path: Path) -> Table:
        self.ready()
        self.page.set_input_files("#photo-file", str(path))
        self.expect(self.page.locator("#add-region")).to_be_enabled()
        return self

    # ----------------------------------------------------------------------------------------- hands

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Of the screen, from shares of the canvas; the picture lies in its middle."""
        box = self.canvas.bounding_box()
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    def drag(self, *places: tuple[float, float]) -> None:
        first, *others = [self.point(*place) for place in places]
        self.page.mouse.move(*first)
        self.page.mouse.down()
        for place in others:
            self.page.mouse.move(*place, steps=4)
        self.page.mouse.up()

    def tool(self, name: str) -> None:
        self.page.locator(f"[data-tool={name}]").click()

    def drop(self, path: Path, where: str) -> None:
        """A file from the desktop onto an element."""
        self.page.evaluate(
            """async ({ bytes, name, where }) => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([new Uint8Array(bytes)], name));
                const place = document.querySelector(where);
                const about = { dataTransfer: transfer, bubbles: true, cancelable: true };
                for (const kind of ["dragenter", "dragover", "drop"]) {
                    place.dispatchEvent(new DragEvent(kind, about));
                }
            }""",
            {"bytes": list(path.read_bytes()), "name": path.name, "where": where},
        )

    def set(self, parameters: dict[str, str]) -> None:
        """Opens the fold and fills in numbers."""
        fold = self.page.locator("#fold")
        if fold.get_attribute("open") is None:
            fold.locator("summary").click()
        for name, value in parameters.items():
            self.page.locator(f"#p-{name}").fill(value)
            self.page.locator(f"#p-{name}").press("Tab")

    # ----------------------------------------------------------------------------------------- eyes

    def shares(self) -> list[int]:
        texts: Sequence[str] = self.regions.locator(".share").all_inner_texts()
        return [0 if text.startswith("<") else int(re.findall(r"\d+", text)[0]) for text in texts]

    def view(self) -> str:
        return self.page.locator("[data-view][aria-pressed=true]").get_attribute("data-view")

    def says(self, pattern: str) -> None:
        self.expect(self.messages).to_contain_text(re.compile(pattern))

    def painting(self) -> None:
        """A job of this tab is under way, with steps."""
        self.expect(self.progress).to_be_visible()
        self.expect(self.page.locator("#progress-text")).to_have_text(re.compile(r"step \d+ of \d+"))

    def painted(self) -> None:
        """The picture is there."""
        self.expect(self.page.locator("#actions")).to_be_visible()
        assert self.view() == "result"
