"""Commands that processes run together: `torchrun -m tests.commands_of_ranks COMMANDS`, a JSON list of lists of words.

Each process writes what it printed, and its exit codes, to `rank-N.json` beside it: a launch takes longer than many
commands.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path

import torch.distributed as dist

from unclump.cli import main

if __name__ == "__main__":
    dist.init_process_group("gloo")  # once: torch cannot connect the same processes again
    results = []
    for words in json.loads(Path(sys.argv[1]).read_text()):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as end:
                code = end.code
        results.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
    dist.destroy_process_group()
    Path(sys.argv[1]).with_name(f"rank-{os.environ['RANK']}.json").write_text(json.dumps(results))
