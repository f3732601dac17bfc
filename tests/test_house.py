"""The house rules: imports go one way, files stay readable, nothing heavy is loaded before it is needed."""

import ast
import sys
from pathlib import Path

import pytest
import tomllib

from tests.import_graph import SOURCE, cycles, graph, imports

FILES = sorted(SOURCE.rglob("*.py"))
FLOORS = [
    {"job"},
    {"files", "core"},
    {"images", "sheets", "tables", "examples"},
    {"backbone", "weights"},
    {"features"},
    {"methods"},
    {"regions"},
    {"pipeline"},
    {"metrics", "analysis"},
    {"bench"},
    {"studio", "study", "cli"},
    {"__main__"},
]
FLOOR = {name: height for height, names in enumerate(FLOORS) for name in names}
# A result can save itself: one import upwards, made when it is asked to.
EXCEPTIONS = {("job.py", "images")}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def part_of(path: Path) -> str:
    """core/ddim.py -> core, job.py -> job."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_one_way(path):
    own = part_of(path)
    if own == "__init__":
        return
    assert own in FLOOR, f"{own} has no place in the order of the house; see docs/architecture.md"
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] != "mast" or len(parts) == 1 or parts[1] not in FLOOR:
            continue
        if (name_of(path), parts[1]) in EXCEPTIONS:
            continue
        assert FLOOR[parts[1]] <= FLOOR[own], f"{name_of(path)}:{line} imports {name}, which stands above it"


def test_no_file_needs_itself_to_be_imported():
    """Not even inside one floor; an import inside a function is made when all files are there."""
    assert cycles(graph(top_level_only=True)) == []


def test_no_two_public_classes_have_one_name():
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "core"], ids=name_of)
def test_core_knows_torch_the_standard_library_and_nothing_else(path):
    for name, line in imports(path):
        parts = name.split(".")
        allowed = parts[0] in {"torch", *sys.stdlib_module_names} or parts[:2] in (
            ["mast", "job"],
            ["mast", "core"],
        )
        assert allowed, f"{name_of(path)}:{line} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_stay_readable(path):
    assert len(path.read_text().splitlines()) <= 400
    assert path.name != "utils.py"


@pytest.mark.parametrize("path", [path for path in FILES if path.read_text().strip()], ids=name_of)
def test_every_file_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def core_dependencies() -> set[str]:
    """Import names of what is always installed."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    names = {
        "".join(c if c.isalnum() or c in "-_" else " " for c in text).split()[0]
        for text in project["dependencies"]
    }
    return {{"pillow": "PIL"}.get(name, name) for name in names}


# A part that is imported as a whole, where it is needed, imports what it is made with at its top.
MADE_WITH = {"studio": {"fastapi", "pydantic", "starlette", "uvicorn"}}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_optional_packages_are_imported_where_they_are_used(path):
    always = {"mast", *core_dependencies(), *sys.stdlib_module_names, *MADE_WITH.get(part_of(path), ())}
    for name, line in imports(path, top_level_only=True):
        assert name.split(".")[0] in always, f"{name_of(path)}:{line} imports {name} before it is needed"


def test_importing_mast_loads_neither_transformers_nor_diffusers():
    import subprocess

    code = "import sys, mast; print(sorted({'transformers', 'diffusers'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
