"""A file that is truncated by another program while it is mapped into memory: one line instead of a crash."""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def report_bus_errors(command: str) -> Iterator[None]:
    """End the process with a message and exit code 2 where a mapped page cannot be read.

    The signal comes in the middle of a load instruction, which would be repeated for ever after a handler of Python's
    `signal` module: those run later. A handler of the C library runs at once, and does not return.
    """
    if not hasattr(signal, "SIGBUS"):
        yield
        return
    message = f"unclump {command}: a file was cut short, or its disk failed, while it was being read; run it again\n"
    encoded = message.encode()

    def end(_: int) -> None:
        os.write(2, encoded)
        os._exit(2)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(end)
    install = ctypes.CDLL(None).signal
    install.argtypes, install.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    before = install(signal.SIGBUS, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        install(signal.SIGBUS, before)
