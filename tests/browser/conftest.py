"""Debian's Chromium on a real studio with a tiny model. Without Chromium these tests are skipped, and say so;
`make test-browser` installs what they need and does not let them skip.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mast.weights.registry import local
from tests.browser.studio import PATIENCE, TOKEN, Studio
from tests.browser.table import Table
from tests.cli.conftest import folder, run  # noqa: F401  `mast replay`, in this process
from tests.tiny import picture

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
SEGMENTERS = ("mobile-sam", "u2netp")


def absent(what: str) -> NoReturn:
    """Skips, or fails where `make test-browser` has promised that everything is there."""
    if os.environ.get("MAST_BROWSER_TESTS") == "required":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        absent("chromium is not installed; `make test-browser` installs it, or: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("playwright is not installed; pip install -c constraints.txt 'mast[browser]'")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def studio(browser: Any, tiny_sd_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """One server for all tests; what finds objects is the real thing where its weights are here."""
    home = tmp_path_factory.mktemp("studio")
    (home / "cache" / "weights").mkdir(parents=True)
    for name in SEGMENTERS:
        if (weight := local(name)) is not None:
            (home / "cache" / "weights" / weight.name).symlink_to(weight)
    server = Studio(str(tiny_sd_folder), home / "data", home / "cache")
    yield server.start()
    server.stop()


@pytest.fixture
def open_table(browser: Any, studio: Studio) -> Iterator[Any]:
    """Opens the page as one person does: open_table(), or with what Playwright's contexts take. An error in
    the page's scripts fails the test.
    """
    contexts, errors = [], []

    def opened(context: Any = None, **options: Any) -> Table:
        if context is None:
            size = {"width": 1280, "height": 800}
            context = browser.new_context(**{"viewport": size, "locale": "en-GB", **options})
            context.set_default_timeout(1000 * PATIENCE)
            contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if "Content Security" in said.text else None)
        page.goto(f"{studio.home}/?token={TOKEN}")
        return Table(page, studio)

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def table(open_table: Any) -> Table:
    return open_table()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small photo and a small painting of the person's own."""
    own = tmp_path_factory.mktemp("own")
    for name, seed in (("meadow", 5), ("fresco", 6)):
        picture(192, 128, seed).save(own / f"{name}.png")
    return {path.stem: path for path in own.iterdir()}
