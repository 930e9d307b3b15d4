"""Completion, in the shells themselves."""

import shutil
import subprocess

import pytest

import unclump as uc
from unclump.cli import main, parser


def in_bash(script, *words):
    """What bash offers for the last of the words."""
    line = " ".join(words)
    asked = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
        f"COMP_LINE={line!r}\nCOMP_POINT={len(line)}\ncompopt() {{ :; }}\n_unclump\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    found = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert found.stderr == ""
    return found.stdout.split("\n")[:-1]


@pytest.fixture
def script(capsys):
    def printed(shell):
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return printed


def test_bash_completes_commands_options_values_and_files(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my words.npz").touch()
    bash = script("bash")
    assert set(in_bash(bash, "unclump", "")) >= {"spread", "place", "code", "demo", "completion", "--version"}
    assert in_bash(bash, "unclump", "sp") == ["spread"]
    assert in_bash(bash, "unclump", "spread", "--ma") == ["--max-move"]
    assert in_bash(bash, "unclump", "spread", "x", "--objective", "k") == ["koleo"]
    assert set(in_bash(bash, "unclump", "spread", "--objective", "")) == set(uc.list_objectives())
    assert in_bash(bash, "unclump", "spread", "my") == ["my words.npz"]
    assert in_bash(bash, "unclump", "place", "x", "--new", "m") == ["my words.npz"]
    assert in_bash(bash, "unclump", "completion", "") == ["bash", "zsh", "fish"]
    assert in_bash(bash, "unclump", "spread", "--steps", "") == [""]


def test_bash_knows_every_option_of_every_command(script):
    bash = script("bash")
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    for name, command in commands.items():
        flags = {flag for action in command._actions for flag in action.option_strings}
        assert set(in_bash(bash, "unclump", name, "-")) == flags


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_reads_its_script(script, tmp_path):
    (tmp_path / "_unclump").write_text(script("zsh"))
    load = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; print $_comps[unclump]"
    found = subprocess.run(["zsh", "-f", "-c", load], capture_output=True, text=True, check=True)
    assert (found.stdout, found.stderr) == ("_unclump\n", "")
    subprocess.run(["zsh", "-f", "-n", str(tmp_path / "_unclump")], check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_commands_options_and_values(script):
    def offered(line):
        asked = script("fish") + f"complete -C {line!r}\n"
        found = subprocess.run(["fish", "--no-config", "-c", asked], capture_output=True, text=True, check=True)
        assert found.stderr == ""
        return [line.split("\t")[0] for line in found.stdout.splitlines()]

    assert {"spread", "place", "code"} <= set(offered("unclump "))
    assert offered("unclump spread --max") == ["--max-move"]
    assert offered("unclump spread x --objective ko") == ["koleo"]
    assert set(offered("unclump completion ")) == {"bash", "zsh", "fish"}


def test_an_unknown_shell_is_refused(capsys):
    with pytest.raises(SystemExit) as refused:
        main(["completion", "tcsh"])
    assert refused.value.code == 2
