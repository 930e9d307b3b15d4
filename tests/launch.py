"""Processes of one group, forked from one that has imported what they need: `python -m tests.launch 3 MODULE ...`.

Each calls main(*arguments) of the module. It is `torchrun` for tests, which would import torch for itself and again for
every process; that takes longer than most of what they test.
"""

import importlib
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import unclump

ROOT = Path(__file__).parents[1]


def environment():
    here = os.pathsep.join([str(Path(unclump.__file__).parents[1]), str(ROOT)])
    return {**os.environ, "PYTHONPATH": here, "OMP_NUM_THREADS": "1"}


def launch(processes, module, *arguments):
    """Run them to their end; what they print to standard error is in the error if one fails."""
    command = [sys.executable, "-m", "tests.launch", str(processes), module, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]


def run_rank(rank, module, arguments):
    """In a child: the exit code of the module's main function."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
    try:
        module.main(*arguments)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main(processes, name, *arguments):
    from torch.distributed import TCPStore

    module = importlib.import_module(name)
    # As torchrun does: the store is here, so that its port is free and it outlives every process of the group.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": processes}
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "tests"}
    running = set()
    for rank in range(int(processes)):
        child = os.fork()
        if child == 0:
            code = run_rank(rank, module, arguments)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        running.add(child)
    while running:
        child, status = os.wait()
        running.remove(child)
        if os.waitstatus_to_exitcode(status) != 0:  # the others would wait for it
            for other in running:
                os.kill(other, signal.SIGKILL)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
