"""The parser of commands and options, whose errors are one line that says what may have been meant."""

import argparse
import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from unclump._text import did_you_mean, sanitise


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` with wrapped descriptions, and errors without the usage text."""

    def __init__(self, *, description: str, **options: Any) -> None:
        width = shutil.get_terminal_size().columns - 2  # that of argparse, which does not wrap a raw description
        super().__init__(
            description=textwrap.fill(description, width),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **options,
        )

    def error(self, message: str) -> NoReturn:
        """Print the error in one line, and exit with code 2."""
        advice = "" if message.endswith("?") else f"; see {self.prog} --help"
        self.exit(2, f"{self.prog}: {' '.join(message.split())}{advice}\n")

    def check_command(self, arguments: Sequence[str], commands: Sequence[str]) -> None:
        """Exit if the first argument is neither an option nor a command."""
        if arguments and not arguments[0].startswith("-") and arguments[0] not in commands:
            self.error(f"there is no command '{sanitise(arguments[0])}'{did_you_mean(arguments[0], commands)}")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Exit because of arguments that the command does not take: name the first option, or else the first."""
        for argument in unknown:
            if argument.startswith("-") and argument != "-":
                option, flags = argument.partition("=")[0], re.findall(r"--[a-z-]+", self.format_usage())
                self.error(f"there is no option {sanitise(option)}{did_you_mean(option, flags)}")
        self.error(f"expected no more arguments, got '{sanitise(unknown[0])}'")
