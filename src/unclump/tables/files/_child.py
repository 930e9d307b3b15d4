"""Runs `unclump._isolated`, which reads formats whose libraries can crash, in another process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from unclump._text import FileError, escape_unprintable
from unclump.tables.files._validation import missing_package

# The paths of this interpreter, without the working directory, which may contain a file called faiss.py.
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10)); from unclump._isolated import main; main(sys.argv[1:])"
)
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "HDF5_PLUGIN_PRELOAD": "::",  # no filters from elsewhere
    "HDF5_USE_FILE_LOCKING": "FALSE",
}
_LIMITS = {"SIGKILL", "SIGXCPU"}  # end a process that exceeds the limits of the system or of `unclump._isolated`


def run_reader(package: str, extra: str, command: str, path: Path, *arguments: str) -> dict[str, Any]:
    """Run a command on a file in another process and return its answer; raise if it refuses the file, or crashes."""
    run = subprocess.run(
        [sys.executable, "-c", _START, "\n".join(filter(None, sys.path)), command, str(path.absolute()), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | _ENVIRONMENT,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(run.stdout)
    except ValueError:
        fault = f"exit code {run.returncode}"
        if run.returncode < 0:
            fault = signal.Signals(-run.returncode).name
        if fault in _LIMITS:
            raise FileError("needs more memory or time than is allowed") from None
        raise FileError(f"ends {package}, which reads it, with {fault}: it is damaged") from None
    if "missing" in answer:
        raise missing_package(package, extra)
    if "error" in answer:
        raise FileError(escape_unprintable(str(answer["error"]))[:300])
    return answer
