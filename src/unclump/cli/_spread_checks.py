"""Validation of the options of `unclump spread`, before any table is read."""

import argparse
from pathlib import Path

from unclump._text import sanitise


def validate(args: argparse.Namespace) -> list[float] | None:
    """Raise if options contradict each other; return the values of --try-moves, if any."""
    from unclump._checks import check_count, check_positive

    max_moves = None if args.try_moves is None else _parse_degrees(args.try_moves)
    for option in ("max_move", "lr"):
        if getattr(args, option) is not None:
            check_positive(_flag(option), getattr(args, option))
    if args.batch_size is not None:
        check_count("--batch-size", args.batch_size, at_least=2)
    if max_moves is not None:
        _check_exclusive(args, "try_moves", ("output", "in_place", "max_move", "duplicates_only", "checkpoint"))
    if args.duplicates_only:
        unused = ("objective", "option", "steps", "lr", "batch_size", "checkpoint")
        _check_exclusive(args, "duplicates_only", unused)
    elif args.within is not None:
        raise ValueError("expected --within together with --duplicates-only, got it alone; use both or neither")
    return max_moves


def _check_exclusive(args: argparse.Namespace, option: str, others: tuple[str, ...]) -> None:
    for other in others:
        if getattr(args, other) not in (None, False):
            raise ValueError(f"expected {_flag(option)} without {_flag(other)}, got both; leave one out")


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _parse_degrees(text: str) -> list[float]:
    from unclump._checks import check_positive

    try:
        degrees = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"expected --try-moves as degrees such as 5,10,20, got '{sanitise(text)}'") from None
    for value in degrees:
        check_positive("--try-moves", value)
    return degrees


def check_checkpoint(checkpoint: Path | None, file: Path, output: Path) -> None:
    """Raise if the checkpoint cannot be written, or would overwrite a table."""
    if checkpoint is None:
        return
    if checkpoint.resolve() in (file.resolve(), output.resolve()):
        raise ValueError(f"expected a separate file for --checkpoint, got {sanitise(checkpoint)}; name another")
    if not checkpoint.resolve().parent.is_dir():
        raise ValueError(f"expected --checkpoint in an existing folder, got {sanitise(checkpoint)}; create it first")
