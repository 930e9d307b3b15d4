"""Commands that processes run together: `tests.launch` with a JSON file of lists of words.

Each process writes what it printed, and its exit codes, to `rank-N.json` beside it: a launch takes longer than many
commands.
"""

import contextlib
import io
import json
import os
from pathlib import Path

import torch.distributed as dist

from unclump import cli


def main(commands):
    dist.init_process_group("gloo")  # once: torch cannot connect the same processes again
    results = []
    for words in json.loads(Path(commands).read_text()):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main(words)
            except SystemExit as end:
                code = end.code
        results.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
    dist.destroy_process_group()
    Path(commands).with_name(f"rank-{os.environ['RANK']}.json").write_text(json.dumps(results))
