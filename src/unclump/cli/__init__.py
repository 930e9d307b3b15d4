"""The command line: `unclump COMMAND ...`.

User errors are one line on stderr and exit code 2; output files are written atomically.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from importlib.metadata import version

from unclump.cli import apply, code, completion, demo, fit, measure, place, repair, report, spread
from unclump.cli._bus_errors import report_bus_errors
from unclump.cli._memory import MESSAGE, is_out_of_memory

EXAMPLES = """examples:
  unclump measure model.safetensors            how healthy is a table of embeddings?
  unclump report model.safetensors             the same as one HTML page
  unclump repair words.npz --pairs judged.tsv  which repair helps, judged by your own data?
  unclump spread table.npy -o apart.npy        move its rows apart
  unclump place table.npy --count 10 -o longer.npy
                                               add ten rows where there is most room
  unclump code 24 3                            24 directions in 3 dimensions, as far apart as possible

See unclump COMMAND --help for details."""


class _PrintVersion(argparse.Action):
    """The version, and which implementation of the operations is in use, found only now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from unclump._library import describe, describe_gpu

        print(f"unclump {version('unclump')}, {describe()}; on a GPU: {describe_gpu()}")
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands and their options."""
    result = argparse.ArgumentParser(
        prog="unclump",
        description="Keep points apart on spheres.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--version", action=_PrintVersion, nargs=0, help="show the version, and whether the compiled loops are in use"
    )
    commands = result.add_subparsers(dest="command", metavar="COMMAND")
    result.set_defaults(run=lambda args: result.print_help())
    for module in (measure, report, repair, fit, apply, spread, place, code, demo, completion):
        command = commands.add_parser(
            module.__name__.rpartition(".")[2],
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_options(command)
        command.set_defaults(run=module.run)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    args = parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for names that the terminal's encoding lacks
    try:
        with report_bus_errors(args.command or "help"):
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
        print(f"unclump {args.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
