"""The program that searches for the catalogue's codes, and the commands that it records."""

import importlib
import math
import shlex
from pathlib import Path

import pytest

from unclump.cli import parser
from unclump.codes import catalogue
from unclump.codes.constructions.exact import exact_code

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("catalogue")


def records(antipodal):
    folder = catalogue.SHIPPED / catalogue.LINES if antipodal else catalogue.SHIPPED
    for path in folder.glob("*.zip"):
        for n, record in catalogue.read_index(path).items():
            yield n, int(path.stem), record.command


@pytest.mark.parametrize("antipodal", [False, True], ids=["points", "lines"])
def test_every_record_has_a_command_that_can_be_run_or_says_that_there_is_none(tool, antipodal):
    for n, d, command in records(antipodal):
        if command.startswith("no single command: "):
            continue
        match shlex.split(command):
            case ["unclump", *arguments]:
                chosen = parser().parse_args(arguments)
                assert (chosen.n, chosen.d, chosen.lines, chosen.fresh) == (n, d, antipodal, True)
            case ["python", "tools/catalogue.py", *arguments]:
                chosen = tool.make_parser().parse_args(arguments)
                assert [size for text in chosen.sizes for size in tool.parse_sizes(text)] == [(d, n)]
                assert chosen.lines == antipodal
            case _:
                pytest.fail(f"{n} in {d}: {command!r}")


def test_a_size_is_visited_again_for_longer_while_that_improves_it(tool, monkeypatch):
    codes, visits, angles = tool.Codes(antipodal=False), [], iter([0.5, 0.6, 0.6, 0.6])
    monkeypatch.setattr(codes, "angle", lambda n, d: next(angles))
    monkeypatch.setattr(codes, "visit", lambda *visit: visits.append(visit))
    codes.visit_while_better(50, 5, 7, 3.0)
    assert visits == [(50, 5, 7, 3.0), (50, 5, 1007, 6.0)]


def test_a_code_in_fewer_dimensions_gets_axes(tool, monkeypatch, tmp_path):
    monkeypatch.setattr(tool.catalogue, "SHIPPED", tmp_path)
    codes = tool.Codes(antipodal=False)
    codes.lift(9, 4)
    assert codes.angle(9, 4) >= math.acos(exact_code(7, 3).cosine) - 1e-12  # which is less than a right angle


def test_sections_become_codes_of_every_smaller_size(tool, monkeypatch, tmp_path):
    monkeypatch.setattr(tool.catalogue, "SHIPPED", tmp_path)
    codes = tool.Codes(antipodal=False)
    codes.search_sections(7, [50, 55], seed=0)
    assert min(codes.angle(n, 7) for n in (50, 55)) >= math.acos(1 / 3) - 1e-12  # of the 56 roots of E8 near one
