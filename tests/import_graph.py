"""Prints which part of mast imports which, with the number of import statements.

    python tests/import_graph.py [SRC_FOLDER]

A part is a package or a module at the top of mast. Cycles between parts, and between the files of one part,
are named at the end; tests/test_house.py makes sure that there are none.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "mast"


def module_of(path: Path, source: Path = SOURCE) -> str:
    """core/ddim.py -> mast.core.ddim; core/__init__.py -> mast.core."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(["mast", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def part_of(module: str) -> str:
    """mast.core.ddim -> core; the package itself is "mast"."""
    return module.split(".")[1] if "." in module else "mast"


def walk(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it only runs when some function is called; without what type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child, inside
        yield from walk(
            child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        )


def imports(path: Path, top_level_only: bool = False, source: Path = SOURCE) -> Iterator[tuple[str, int]]:
    """Absolute dotted names of all that a file imports, and the line."""
    own = module_of(path, source).split(".")
    package = own if path.name == "__init__.py" else own[:-1]
    for node, inside in walk(ast.parse(path.read_text())):
        if inside and top_level_only:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            for alias in node.names:
                parts = [*base, *(node.module.split(".") if node.module else []), alias.name]
                yield ".".join(parts), node.lineno


def graph(top_level_only: bool = False, source: Path = SOURCE) -> dict[str, Counter[str]]:
    """By module, the modules of mast it imports and how often."""
    files = {module_of(path, source): path for path in sorted(source.rglob("*.py"))}
    found: dict[str, Counter[str]] = {}
    for module, path in files.items():
        found[module] = Counter()
        for name, _ in imports(path, top_level_only, source):
            target = name if name in files else name.rpartition(".")[0]
            if target in files and target != module:
                found[module][target] += 1
    return found


def by_part(modules: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for module, targets in modules.items():
        own = found.setdefault(part_of(module), Counter())
        for target, count in targets.items():
            if part_of(target) != part_of(module):
                own[part_of(target)] += count
    return found


def cycles(edges: Mapping[str, Mapping[str, int]]) -> list[list[str]]:
    """Groups of nodes that can all reach each other: Tarjan's strongly connected components."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in edges:
        if node not in index:
            visit(node)
    return found


def main(source: Path) -> None:
    modules = graph(source=source)
    for part, targets in sorted(by_part(modules).items()):
        print(f"{part:10} -> {', '.join(f'{name} {n}' for name, n in targets.most_common()) or '-'}")
    for name, edges in (("parts", by_part(modules)), ("files, when imported", graph(True, source))):
        for group in cycles(edges):
            print(f"cycle of {name}: {', '.join(group)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
