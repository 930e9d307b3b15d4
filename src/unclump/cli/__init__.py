"""The command line: `unclump COMMAND ...`.

User errors are one line on stderr and exit code 2; output files are written atomically.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from unclump._text import describe_error, sanitise, word_for_command_line
from unclump.cli import apply, code, completion, demo, fit, measure, place, repair, report, spread
from unclump.cli._bus_errors import report_bus_errors
from unclump.cli._memory import MESSAGE, is_out_of_memory
from unclump.cli._parser import Parser

EXAMPLES = """examples:
  unclump measure model.safetensors            how healthy is a table of embeddings?
  unclump report model.safetensors             the same as one HTML page
  unclump repair words.npz --pairs judged.tsv  which repair helps, judged by your own data?
  unclump spread table.npy -o apart.npy        move its rows apart
  unclump place table.npy --count 10 -o longer.npy
                                               add ten rows where there is most room
  unclump code 24 3                            24 directions in 3 dimensions, as far apart as possible

See unclump COMMAND --help for details."""
_COMMANDS = {
    module.__name__.rpartition(".")[2]: module
    for module in (measure, report, repair, fit, apply, spread, place, code, demo, completion)
}


class _PrintVersion(argparse.Action):
    """The version, and which implementation of the operations is in use, found only now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from unclump._library import describe, describe_gpu

        print(f"unclump {version('unclump')}, {describe()}; on a GPU: {describe_gpu()}")
        parser.exit()


def parser() -> Parser:
    """Build the parser of all commands and their options."""
    result = Parser(prog="unclump", description="Keep points apart on spheres.", epilog=EXAMPLES)
    result.add_argument(
        "--version", action=_PrintVersion, nargs=0, help="show the version, and whether the compiled loops are in use"
    )
    commands = result.add_subparsers(dest="command", metavar="COMMAND")
    result.set_defaults(run=lambda args: result.print_help(), refuse=result.refuse)
    for name, module in _COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION, epilog=module.EXAMPLES)
        module.add_options(command)
        command.set_defaults(run=module.run, refuse=command.refuse)
    return result


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command and its options; exits if they are wrong."""
    options = parser()
    options.check_command(arguments, list(_COMMANDS))
    args, unknown = options.parse_known_args(arguments)
    if unknown:
        args.refuse(unknown)
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    args = _parse(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding lacks
    try:
        with report_bus_errors(args.command or "help"), word_for_command_line():
            return args.run(args) or 0
    except KeyboardInterrupt as interrupt:
        print(f"unclump {args.command}: interrupted{interrupt}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output, such as head, has closed the pipe
        sys.stderr.close()
        return 0
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"unclump {args.command}: {MESSAGE}", file=sys.stderr)
        return 2
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        print(f"unclump {args.command}: {' '.join(_describe(error).split())}", file=sys.stderr)
        return 2


def _describe(error: Exception) -> str:
    """The message of an error; of one from the operating system, the file and what is wrong with it."""
    if isinstance(error, OSError) and isinstance(error.filename, str | Path):
        return f"{sanitise(error.filename)}: {describe_error(error)}"
    return str(error)
