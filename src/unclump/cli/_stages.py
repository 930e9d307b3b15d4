"""The stage of a command, shown on the terminal while there is no progress bar, even before the slow imports."""

import argparse
import sys


def shows_progress(args: argparse.Namespace) -> bool:
    """Whether to show progress: on a terminal, unless --quiet."""
    return not args.quiet and sys.stderr.isatty()


class Stages:
    """Shows one stage after the other on the same line, which is erased at the end.

    A progress bar begins at the same place and is longer, so it overwrites the line.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.progress, self._shown = shows_progress(args), ""

    def show(self, stage: str) -> None:
        """Replace the line by the next stage."""
        if self.progress:
            sys.stderr.write(f"\r{stage:<{len(self._shown)}}")
            sys.stderr.flush()
            self._shown = stage

    def clear(self) -> None:
        """Erase the line, before anything else is printed."""
        if self._shown:
            self.show("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def __enter__(self) -> "Stages":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
