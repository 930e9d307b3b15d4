"""Imports point down the map, and nowhere else."""

import ast
from pathlib import Path

import unclump

SOURCE = Path(unclump.__file__).parent

LAYERS = [
    {"_checks", "_numba", "_arrays", "_checkpoint", "_once"},
    {"_random", "_history", "distributed"},
    {"_sharded_checkpoint"},
    {"sphere", "_special", "_uniform_law"},
    {"kernels", "circle", "distributions", "starts", "_updates", "_moves"},
    {"pairs", "one_pass", "_null", "_groups", "_neighbours", "_verdict"},
    {"kernel_sums"},
    {"table", "_faiss", "between", "_figure_data"},
    {"objectives", "measures", "uniformity_tests", "mmd_error", "optim", "projected", "overlap", "repair"},
    {"_run", "place", "files"},
    {"disperse", "codes", "figures", "_health_found"},
    {"health", "prototypes"},
    {"demo", "report"},
    {"cli", "integrations"},
    {"__main__"},
]
# The only neighbours that may speak to each other.
WITHIN = {(part, part) for part in ("_numba", "objectives", "codes", "cli", "files", "report", "integrations")}


def imports():
    """(importer, imported) for every import of one part of the package by another."""
    for path in SOURCE.rglob("*.py"):
        importer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if names == ["unclump"]:  # from unclump import part
                names = [f"unclump.{alias.name}" for alias in node.names]
            for name in names:
                if name.startswith("unclump.") and importer != "__init__":
                    yield importer, name.split(".")[1]


def test_every_part_has_its_layer():
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert parts - {"__init__"} == set().union(*LAYERS)


def test_imports_point_down():
    height = {part: level for level, layer in enumerate(LAYERS) for part in layer}
    upward = {(a, b) for a, b in imports() if height[b] >= height[a]} - WITHIN
    assert upward == set()


def test_nothing_imports_what_is_only_for_tests_and_benchmarks():
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    for name in ("geoopt", "import ot", "experiments"):
        assert f"import {name.removeprefix('import ')}" not in text
