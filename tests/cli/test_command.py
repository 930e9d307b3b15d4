"""The command line: what it prints, what it writes, and what it refuses."""

import json
import math
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import torch

import unclump as uc
from unclump import cli
from unclump.cli import code, main, measure, parser, place, report, spread
from unclump.cli._files import OBJECTIVES
from unclump.codes import catalogue


def test_a_code_is_told_with_its_angle_bound_and_proof(capsys):
    assert main(["code", "24", "3"]) == 0
    said = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.replace("smallest angle", "angle").splitlines()
    )
    assert said["angle"] == "43.690767107676 degrees"
    assert said["optimal"] == "proved: Robinson 1961"
    assert said["contacts"] == "60 pairs, 0 rattlers"


def test_a_code_as_json(capsys):
    assert main(["code", "12", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["angle_degrees"] == pytest.approx(math.degrees(math.acos(1 / math.sqrt(5))), abs=1e-12)
    assert said["optimal"]


def commands_of(parser):
    return next(action for action in parser._actions if action.dest == "command").choices


READERS = {
    "npy": np.load,
    "csv": lambda path: np.loadtxt(path, delimiter=","),
    "json": lambda path: np.array(json.loads(path.read_text())["points"]),
}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--time-limit", "0.5"], "searching for 15 points in 3 dimensions: ends after 0.5 s\n"),
        (["--time-limit", "0.5", "--quiet"], ""),
        (["--restarts", "1", "--lines"], "searching for 15 lines in 3 dimensions: may take minutes; --time-limit"),
    ],
)
def test_a_search_without_a_terminal_says_that_it_searches(options, said, monkeypatch, capsys):
    monkeypatch.setattr(code, "_PATIENCE", 0.0)
    assert main(["code", "15", "3", *options]) == 0
    assert capsys.readouterr().err.startswith(said) if said else capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["7", "9", "--restarts", "1"],
            "not used: --restarts, since this code has a closed form; --fresh searches\n",
        ),
        (["24", "3", "--time-limit", "9", "--init", "random"], "not used: --time-limit, --init, since"),
        (["6", "3", "--lines", "--restarts", "1"], "not used: --restarts, since"),
        (["6", "3", "--restarts", "1", "--quiet"], ""),
        (["6", "3", "--restarts", "1", "--fresh"], ""),
        (["6", "3", "--restarts", "1", "--thomson"], ""),
        (["6", "3"], ""),
    ],
)
def test_options_without_effect_on_a_closed_form_are_named(arguments, said, capsys):
    assert main(["code", *arguments]) == 0
    assert capsys.readouterr().err.startswith(said) if said else capsys.readouterr().err == ""


@pytest.mark.parametrize("suffix", READERS)
def test_points_are_written_with_all_their_digits(suffix, tmp_path, capsys):
    path = tmp_path / f"code.{suffix}"
    assert main(["code", "15", "3", "-o", str(path)]) == 0
    np.testing.assert_array_equal(READERS[suffix](path), uc.spherical_code(15, 3).points.numpy())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(("n", "d"), [(24, 3), (40, 5)])
def test_a_plot_is_drawn(n, d, tmp_path, capsys):
    assert main(["code", str(n), str(d), "--plot", str(tmp_path / "code.png")]) == 0
    assert (tmp_path / "code.png").read_bytes().startswith(b"\x89PNG")


def test_an_improvement_is_kept_and_found_the_next_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("UNCLUMP_CATALOGUE", str(tmp_path))
    size = ["code", "7", "9"]  # in closed form: never searched for unless asked
    assert main([*size, "--improve", "--restarts", "1", "--quiet"]) == 0
    assert str(tmp_path) in capsys.readouterr().err
    assert main([*size, "--improve", "--restarts", "1", "--quiet"]) == 0
    assert "not better" in capsys.readouterr().err


def test_improved_lines_are_kept_with_their_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("UNCLUMP_CATALOGUE", str(tmp_path))
    lines = ["code", "5", "4", "--lines", "--quiet"]
    assert main([*lines, "--improve", "--restarts", "1"]) == 0
    assert str(tmp_path) in capsys.readouterr().err
    entry = catalogue.read(tmp_path, 5, 4, antipodal=True)
    assert math.cos(entry.record.angle) == pytest.approx(1 / 4, abs=1e-12)
    assert entry.record.command == "unclump code 5 4 --lines --fresh --seed 0 --restarts 1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["1", "3"], "expected n >= 2, got 1"),
        (["5", "1"], "expected d >= 2, got 1"),
        (["5", "3", "-o", "code.xlsx"], "expected an output file ending in .npy, .csv, .json"),
        (
            ["5", "3", "-o", "no/such/folder/code.npy"],
            "no/such/folder/code.npy: its folder does not exist",
        ),
        (["15", "3", "--init", "spiral"], "expected init"),
        (["15", "3", "--init", "missing.npy"], "missing.npy: no such file or directory"),
        (["5", "3", "--restarts", "0"], "expected --restarts >= 1, got 0"),
        (["5", "3", "--time-limit", "-1"], "expected --time-limit > 0"),
        (["5", "3", "--plot", "code.xyz"], "code.xyz: is not the name of a figure"),
        (["5", "3", "--plot", "no/such/folder/code.png"], "no/such/folder/code.png: its folder does not exist"),
        (["5", "3", "--plot", "/"], "/: is not the name of a figure"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(arguments, message, capsys, at_the_door):
    assert main(["code", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("unclump code: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("code many 3", "unclump code: argument N: invalid int value: 'many'; see unclump code --help"),
        ("measure", "unclump measure: the following arguments are required: FILE; see unclump measure --help"),
        ("spraed a.npy", "unclump: there is no command 'spraed'; did you mean 'spread'?"),
        ("words.npz", "unclump: there is no command 'words.npz'; see unclump --help"),
        ("--nonsense", "unclump: there is no option --nonsense; see unclump --help"),
        ("spread a.npy --stepz=5 -o b.npy", "unclump spread: there is no option --stepz; did you mean '--steps'?"),
        ("spread a.npy b.npy", "unclump spread: expected no more arguments, got 'b.npy'; see unclump spread --help"),
    ],
)
def test_options_that_make_no_sense_are_one_line_and_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as refused:
        main(arguments.split())
    assert refused.value.code == 2
    assert capsys.readouterr() == ("", f"{message}\n")


def test_descriptions_are_as_wide_as_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    description = re.split(r"\n\n", next(iter(commands_of(parser()).values())).format_help())[1]
    assert description.count("\n") > 2
    assert max(map(len, description.splitlines())) < 60


def test_a_message_keeps_the_name_of_a_file_that_reads_like_advice(tmp_path, capsys):
    assert main(["measure", str(tmp_path / "leave out tensor=.npy")]) == 2
    assert "leave out tensor=.npy: no such file or directory" in capsys.readouterr().err


def test_every_command_explains_itself_with_an_example(capsys):
    for name, command in commands_of(parser()).items():
        assert f"unclump {name}" in command.format_help().split("example")[1]


def test_without_a_command_it_says_what_there_is(capsys):
    assert main([]) == 0
    assert "unclump code 24 3" in capsys.readouterr().out


@pytest.mark.parametrize("module", [cli, measure, report, spread, place, code], ids=lambda module: module.__name__)
def test_every_example_of_the_help_is_a_command(module):
    lines = [line.strip() for line in module.EXAMPLES.splitlines() if line.startswith("  unclump")]
    assert lines
    for line in lines:
        command = re.split(r"\s{2,}", line)[0]
        chosen = parser().parse_args(shlex.split(command)[1:])
        assert chosen.command == command.split()[1]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["completion", "bash"], ["spread", "--help"]], ids=str
)
def test_help_version_and_completion_do_not_wait_for_torch(arguments):
    program = (
        f"import sys; from unclump.cli import main\ntry: main({arguments})\nfinally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_objectives_are_completed_by_the_names_that_there_are():
    assert uc.list_objectives() == OBJECTIVES


@pytest.mark.parametrize(
    "allocate", [lambda: np.empty(2**60, np.uint8), lambda: torch.empty(2**60)], ids=["numpy", "torch"]
)
def test_too_little_memory_is_one_line(allocate, monkeypatch, capsys):
    monkeypatch.setattr(measure, "run", lambda args: allocate())
    assert main(["measure", "words.npy"]) == 2
    assert capsys.readouterr().err == "unclump measure: needs more memory than is available\n"


def test_a_fault_of_ours_is_still_a_traceback(monkeypatch):
    def fail(_):
        raise RuntimeError("ours")

    monkeypatch.setattr(measure, "run", fail)
    with pytest.raises(RuntimeError, match="ours"):
        main(["measure", "words.npy"])


TRUNCATED = """
import os, sys
import numpy as np
from unclump import cli
from unclump.cli._tables import load_table

def run(args):
    (file,) = args.files
    points = load_table(file, args).points
    os.truncate(file, 4096)
    print(float({use}))

cli.measure.run = run
np.save("a.npy", np.ones((100_000, 64), np.float16))
sys.exit(cli.main(["measure", "a.npy"]))
"""


@pytest.mark.parametrize("use", ["points.sum()", "points.numpy().sum()", "points[90_000:].float().norm()"])
def test_a_file_truncated_while_it_is_mapped_is_one_line(use, tmp_path):
    command = [sys.executable, "-c", TRUNCATED.replace("{use}", use)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    expected = "a file was cut short, or its disk failed, while it was being read; run it again"
    assert (run.returncode, run.stdout, run.stderr) == (2, "", f"unclump measure: {expected}\n")
