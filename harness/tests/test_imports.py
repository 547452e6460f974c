"""Imports: packages in one direction, no circles, matplotlib in one place."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

from harness.core.paths import ROOT

# The rule. A package imports only itself and packages of rows above its own; none imports
# the last row.
LAYERS = (
    ("core",), ("kernel",), ("guest",), ("series",), ("lab", "layouts", "bench", "deb"),
    ("demo", "mutants"), ("checks",), ("cli", "__main__"),
)  # fmt: skip
DRAWING = {"lab.report.plots"}
"""The modules that import matplotlib, which takes a while."""
HARNESS = ROOT / "harness"
Imports = dict[str, set[str]]


def name_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, modules: set[str]) -> set[str]:
    """Return the harness's modules that the statements below a node import."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("harness.") for name in names} & modules


def sources(root: Path) -> dict[str, ast.Module]:
    return {
        name: ast.parse(path.read_text())
        for path in sorted(root.rglob("*.py"))
        if (name := name_of(path, root)) and not name.startswith("tests")
    }


def graph(trees: dict[str, ast.Module]) -> Imports:
    modules = set(trees)
    return {name: imports(tree, modules) - {name} for name, tree in trees.items()}


def layer(module: str) -> int:
    package = module.split(".", maxsplit=1)[0]
    (level,) = (number for number, names in enumerate(LAYERS) if package in names)
    return level


def wrong_way(edges: Imports) -> list[str]:
    return [
        f"{module} imports {other}"
        for module, others in edges.items()
        for other in sorted(others)
        if module.split(".")[0] != other.split(".")[0]
        and (layer(other) >= layer(module) or other in LAYERS[-1])
        and (module, other) != ("__main__", "cli")
    ]


def test_imports_go_one_way() -> None:
    assert wrong_way(graph(sources(HARNESS))) == []


def test_the_page_for_contributors_says_the_same() -> None:
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    floors = [", ".join(floor) for floor in LAYERS[:-1]]
    chain = " <- ".join(f"{{{floor}}}" if "," in floor else floor for floor in floors)
    assert f"Imports go one way: `{chain}`" in text


def test_there_is_no_circle() -> None:
    # A package is imported with each of its modules; it holds nothing but words.
    TopologicalSorter(graph(sources(HARNESS))).prepare()


def test_matplotlib_is_imported_where_pictures_are_drawn() -> None:
    users = {
        name
        for name, tree in sources(HARNESS).items()
        if imports(tree, {"matplotlib", "matplotlib.figure", "matplotlib.pyplot"})
    }
    assert users == DRAWING
