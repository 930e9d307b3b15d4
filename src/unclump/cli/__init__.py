"""The command line: `unclump COMMAND ...`.

Errors of the user are one line on stderr and exit code 2; nothing is written before it is complete.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from importlib.metadata import version

from unclump.cli import code, completion, demo, measure, place, report, spread

EXAMPLES = """examples:
  unclump measure model.safetensors            how healthy is a table of embeddings?
  unclump report model.safetensors             the same as one page for the browser
  unclump spread table.npy -o apart.npy        move its rows apart
  unclump place table.npy --count 10 -o longer.npy
                                               ten new rows where there is most room
  unclump code 24 3                            24 directions in 3 dimensions, as far apart as can be

unclump COMMAND --help tells the rest."""


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    result = argparse.ArgumentParser(
        prog="unclump",
        description="Keep points apart on spheres.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--version", action="version", version=f"unclump {version('unclump')}")
    commands = result.add_subparsers(dest="command", metavar="COMMAND")
    result.set_defaults(run=lambda chosen: result.print_help())
    for part in (measure, report, spread, place, code, demo, completion):
        part.add_to(commands)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    chosen = parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal's encoding does not have
    try:
        chosen.run(chosen)
    except KeyboardInterrupt as interrupt:
        print(f"unclump {chosen.command}: interrupted{interrupt}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has enough
        sys.stderr.close()
        return 0
    except (ValueError, TypeError, OSError, ModuleNotFoundError) as error:
        print(f"unclump {chosen.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0
