"""Options that all commands on files have. Nothing here imports torch, so help and completion are quick."""

import argparse
from pathlib import Path

OBJECTIVES = (
    "max_min", "koleo", "energy", "frame_potential", "uniformity", "mmd", "lloyd", "sliced", "ssw", "log_det",
    "polarization", "spherical_variance",
)  # fmt: skip
"""The names of `unclump.list_objectives`, which would import torch."""


def add_input(command: argparse.ArgumentParser, *, shards: bool = False) -> None:
    """Add FILE and the options for reading it; with `shards`, one table may be split over several files."""
    what = "a table, or the folder of a model or dataset"
    if shards:
        command.add_argument(
            "files", type=Path, metavar="FILE", nargs="+", help=f"{what}; several files are parts of one table"
        )
    else:
        command.add_argument("file", type=Path, metavar="FILE", help=what)
    command.add_argument("--tensor", metavar="KEY", help="which table, if FILE holds several: key, tensor or column")
    command.add_argument("--names", type=Path, metavar="FILE", help="row names, one per line")


def add_output(command: argparse.ArgumentParser) -> None:
    """Add OUT, and the option that lets it be FILE."""
    command.add_argument("-o", "--output", type=Path, metavar="OUT", help="output file; its suffix sets the format")
    command.add_argument("--in-place", action="store_true", help="replace FILE, once the new one is complete")


def add_habits(command: argparse.ArgumentParser, *, quiet: str) -> None:
    """Add the options that all commands share that compute and print a result."""
    command.add_argument("--device", metavar="DEVICE", help="where torch computes: cpu (default), cuda, cuda:1, mps")
    command.add_argument("--json", action="store_true", help="print JSON; angles in degrees")
    command.add_argument("--quiet", action="store_true", help=quiet)
