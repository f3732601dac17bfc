"""The blocks of docs/python.md run, in order, as one program; and so does the example in mast's docstring."""

import re
from pathlib import Path

import pytest

import mast
from mast.examples import examples_folder

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(path: Path) -> list[str]:
    return BLOCK.findall(path.read_text())


@pytest.mark.slow
def test_every_block_of_the_python_page_runs(tmp_path, monkeypatch):
    """In a folder with the files that the page names."""
    monkeypatch.chdir(tmp_path)
    examples = examples_folder()
    for name, file in {
        "photo.jpg": "photos/cat.jpg",
        "waves.png": "styles/ukiyo-waves.png",
        "mosaic.png": "styles/gold-mosaic.png",
        "cat.png": "masks/cat-cat.png",
    }.items():
        (tmp_path / name).write_bytes((examples / file).read_bytes())
    found = blocks(DOCS / "python.md")
    assert len(found) >= 5 and len(found) == (DOCS / "python.md").read_text().count("```") // 2
    names: dict[str, object] = {"__name__": "page"}
    for block in found:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert isinstance(names["result"], mast.Result) and (tmp_path / "out.png").is_file()


def test_every_name_the_docs_promise_is_there():
    text = "\n".join(path.read_text() for path in (*DOCS.glob("*.md"), DOCS.parent / "README.md"))
    for name in set(re.findall(r"\bmast\.([A-Za-z_]+)\(", text)):
        assert hasattr(mast, name), f"mast.{name} is in the docs and not in the library"
