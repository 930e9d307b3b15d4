"""Imports point down the map, and nowhere else: the folders are the layers."""

import ast
import pkgutil
from pathlib import Path

import unclump

SOURCE = Path(unclump.__file__).parent

LAYERS = [
    {"_text"},
    {"_checks", "_arrays", "_frames", "_isolated", "_library", "_once", "_precision"},
    {"_atomic_write", "_notebook"},
    {"geometry"},
    {"kernels"},
    {"kernel_means"},
    {"ops"},
    {"distributed"},
    {"objectives", "measures", "optim"},
    {"dispersion"},
    {"codes"},
    {"tables"},
    {"figures"},
    {"report"},
    {"cli", "integrations"},
    {"__main__", "_public"},
]


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
    upward = {(a, b) for a, b in imports() if a != b and height[b] >= height[a]}
    assert upward == set()


def test_parts_import_modules_and_not_the_package():
    """`from unclump import name` imports all public names first, in a circle."""
    for path in SOURCE.rglob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        assert path.name == "__init__.py" or "unclump" not in [node.module for node in nodes], path


def test_no_public_name_is_a_module():
    modules = {module.name for module in pkgutil.iter_modules([str(SOURCE)])}
    assert modules & set(unclump.__all__) == set()


def test_nothing_imports_what_is_only_for_tests_and_benchmarks():
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    for name in ("geoopt", "import ot", "experiments"):
        assert f"import {name.removeprefix('import ')}" not in text
