"""The page's files themselves; no browser is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mast.studio
from mast.sheets import COLOURS

PAGE = Path(mast.studio.__file__).parent / "page"
FILES = sorted(PAGE.iterdir())


def test_the_page_and_the_sheets_have_the_same_colours():
    line = re.search(r"export const COLOURS = \[(.+?)\]", (PAGE / "masks.js").read_text())
    assert tuple(re.findall(r"#[0-9a-f]{6}", line.group(1))) == COLOURS


def test_nothing_is_inline_and_nothing_comes_from_elsewhere():
    html = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*src=)", html)
    for path in FILES:
        outside = re.findall(r"https?://(?!www\.w3\.org/2000/svg)\S+", path.read_text())
        assert not outside, f"{path.name} asks for {outside}"


def test_every_address_and_every_name_exists():
    html = (PAGE / "index.html").read_text()
    icons = set(re.findall(r'symbol id="([a-z]+)"', (PAGE / "icons.svg").read_text()))
    named = set(re.findall(r'icons\.svg#([a-z]+)"', html))
    ids = set(re.findall(r'\bid="([a-z-]+)"', html))
    for path in PAGE.glob("*.js"):
        text = path.read_text()
        named |= set(re.findall(r'(?:icon|iconButton)\("([a-z]+)"', text))
        for module in re.findall(r'from "\./([a-z]+\.js)"', text):
            assert (PAGE / module).is_file(), f"{path.name} imports {module}"
        asked = set(re.findall(r'byId\("([a-z-]+)"\)', text)) - {"p-method"}  # made by the script itself
        assert asked <= ids, f"{path.name} looks for {asked - ids}"
    for file in re.findall(r'(?:src|href)="([a-z]+\.(?:js|css|svg))"', html):
        assert (PAGE / file).is_file()
    assert named <= icons


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.suffix in (".js", ".css")], ids=lambda path: path.name
)
def test_files_stay_readable(path: Path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 400
    assert lines[0].startswith(("//", "/*")), "it says what it is"
