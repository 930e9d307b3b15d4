"""The fuzz of files: a few of its cases find nothing, and what it should find is found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unclump as uc

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "tools/fuzz_files.py").exists(), reason="only in a checkout")


def run(code):
    environment = os.environ | {"PYTHONPATH": str(Path(uc.__file__).parents[1])}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_damaged_files_are_read_or_refused():
    said = run("from tools.fuzz_files import main; main(['--cases', '50', '--minutes', '9', '--seed', '5'])")
    counts = json.loads(said.splitlines()[-1])
    assert said.count("\n") == 1  # a finding is a line
    assert counts.pop("findings") == 0
    assert counts.pop("cases") == 50 == sum(counts.values())


PLANT = """
import os, subprocess, sys, time
import tools.fuzz_files as fuzz
fuzz.SECONDS, planted = {seconds}, {planted}
real = fuzz.uc.load
calls = 0
def load(path):
    global calls
    calls += 1
    if calls == 2:
        planted()
    return real(path)
fuzz.uc.load = load
fuzz.main(["--cases", "3", "--only", "npy"])
"""
PLANTED = {
    "traceback": "lambda: {}['missing']",
    "crash": "os.abort",
    "hang": "lambda: time.sleep(30)",
    "hang in a loop": "lambda: all(iter(lambda: True, False))",
    "hang of a reader": "lambda: subprocess.run([sys.executable, '-c', 'while True: pass'])",
    "memory": "lambda: bytearray(2**30).count(1)",
    "code": "lambda: os.system('true')",
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", PLANTED)
def test_what_should_be_found_is_found(kind):
    lines = run(
        PLANT.replace("{planted}", PLANTED[kind]).replace("{seconds}", "1" if "hang" in kind else "20")
    ).splitlines()
    finding = kind.split()[0]
    assert finding in lines[0]
    assert json.loads(lines[-1])[f"npy {finding}"] >= 1
