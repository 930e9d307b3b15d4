"""The order of numbers in float32, by radix sort."""

import numpy as np
from jaxtyping import UInt32, UInt64

from unclump.ops.native.compiler import compiled

_DIGIT = 11  # bits a pass: three passes for 32, and counts that stay in the fastest cache
_DIGITS = 2**_DIGIT
_LOW = np.uint64(_DIGITS - 1)
NUMBER = np.uint64(2**32 - 1)
_SIGN, _ALL, _INFINITY = np.uint32(2**31), np.uint32(2**32 - 1), np.uint32(0x7F800000)


@compiled
def ascend(
    bits: UInt32[np.ndarray, " n"], keys: UInt64[np.ndarray, " n"], spare: UInt64[np.ndarray, " n"]
) -> tuple[UInt64[np.ndarray, " n"], UInt64[np.ndarray, " n"]]:
    """Numbers of the angles in ascending order, in the lower halves of the keys; equal angles keep their order."""
    starts = np.zeros((3, _DIGITS), np.uint32)
    for i in range(len(bits)):
        key = np.uint64(_ordered(bits[i]))
        keys[i] = (key << np.uint64(32)) | np.uint64(i)
        for digit in range(3):
            starts[digit, (key >> np.uint64(_DIGIT * digit)) & _LOW] += 1
    for digit in range(3):
        before = np.uint32(0)
        for value in range(_DIGITS):
            starts[digit, value], before = before, before + starts[digit, value]
        shift = np.uint64(32 + _DIGIT * digit)
        for i in range(len(keys)):
            here = (keys[i] >> shift) & _LOW
            spare[starts[digit, here]] = keys[i]
            starts[digit, here] += 1
        keys, spare = spare, keys
    return keys, spare


@compiled
def _ordered(bits: np.uint32) -> np.uint32:
    """A number that compares as the float32 with these bits: the zeros are equal, and NaN comes last."""
    if (bits & ~_SIGN) > _INFINITY:
        return _ALL
    if bits == _SIGN:
        return _SIGN
    return bits ^ (_ALL if bits & _SIGN else _SIGN)
