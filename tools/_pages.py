"""Pages that a program writes, or compares with what it would write."""

import argparse
import sys


def write_or_check(description, path, make):
    """Write the text that `make` returns to a page; with --check only say whether it is there."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="only say whether the page is what it should be")
    is_check, text = parser.parse_args().check, make()
    if not is_check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"docs/{path.name} is out of date: run {sys.argv[0]}")
