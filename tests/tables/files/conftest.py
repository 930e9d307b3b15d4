"""Tables with awkward names and numbers, and bytes for comparing them."""

import struct

import numpy as np
import pytest
import torch

from unclump.tables.files import Table

NAMES = [
    "the",
    "new york city",
    "",
    "the",  # again
    "95",
    "naïve",
    "日本",
    "\U0001f600",
    "\xa0\x85\u2028",
    '"',
    "a,b;c",
    "<script>alert(1)</script>",
    "\x1b[31mred",
    " spaces ",
    "\udc80\udcff",  # bytes that are no UTF-8
    "windows 95 1e5",
]


@pytest.fixture
def awkward(generator):
    """awkward(dtype): a table of numbers that lose digits easily, with names that break parsers."""

    def make(dtype=torch.float32, names=NAMES, d=5):
        points = torch.randn(len(names), d, generator=generator, dtype=torch.float64).to(dtype)
        limits = torch.finfo(dtype)
        extremes = [limits.max, limits.min, limits.tiny, limits.eps, limits.smallest_normal / 2, -0.0, 1 / 3, 0.1, 1e-5]
        points.flatten()[: len(extremes)] = torch.tensor(extremes, dtype=torch.float64).to(dtype)
        return Table(points, names)

    return make


def bits(points):
    """The bytes of a tensor: equality that tells -0 from 0 and takes NaN for itself."""
    return points.dtype, tuple(points.shape), points.contiguous().view(torch.uint8).numpy().tobytes()


def npy_bytes(shape, descr="<f4", body=b"", *, fortran=False):
    """A `.npy` file that promises whatever it is told to."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def safetensors_bytes(header, body=b""):
    return struct.pack("<Q", len(header)) + header + body


def rows_of(n, d):
    return np.arange(n * d, dtype=np.float32).reshape(n, d) + 1
