"""Arithmetic of small finite fields by lookup tables, as needed for quadratic forms."""

import itertools
from functools import cached_property

import numpy as np
from jaxtyping import Int64

Table = Int64[np.ndarray, "q q"]


class Field:
    """The field of q = p^k elements, numbered 0 .. q - 1; `digits[a]` are the digits of a in base p, lowest first.

    The digits are the coefficients of a polynomial in t, and t generates the multiplicative group. So 0 is zero, 1 is
    one, and for p = 2 the sum of a and b is ``a ^ b``.

    Example:
        >>> four = Field(2, 2)  # t * t = t + 1
        >>> four.product[2, 2].item(), four.sum[2, 1].item()
        (3, 3)
    """

    def __init__(self, p: int, k: int) -> None:
        self.p, self.k, self.q = p, k, p**k
        place_values = p ** np.arange(k)
        self.digits = np.arange(self.q)[:, None] // place_values % p
        self.sum: Table = (self.digits[:, None] + self.digits) % p @ place_values
        powers = next(powers for powers in map(self._powers, range(1, self.q)) if len(set(powers)) == self.q - 1)
        logarithm = np.zeros(self.q, dtype=np.int64)
        logarithm[powers] = np.arange(self.q - 1)
        self.product: Table = np.array(powers)[(logarithm[:, None] + logarithm) % (self.q - 1)]
        self.product[0] = self.product[:, 0] = 0

    def _powers(self, reduction: int) -> list[int]:
        """1, t, ..., t^(q - 2), if t^k equals the polynomial with number `reduction`."""
        digits = np.eye(self.k, dtype=np.int64)[0]
        powers = []
        for _ in range(self.q - 1):
            powers.append(int(digits @ self.p ** np.arange(self.k)))
            carry, digits = digits[-1], np.roll(digits, 1)
            digits[0] = 0
            digits = (digits + carry * self.digits[reduction]) % self.p
        return powers

    @cached_property
    def trace(self) -> Int64[np.ndarray, " q"]:
        """The trace x + x^p + x^(p^2) + ... of every x, a number below p; a linear map."""
        total = conjugate = np.arange(self.q)
        for _ in range(self.k - 1):
            power = conjugate
            for _ in range(self.p - 1):
                power = self.product[power, conjugate]
            conjugate = power
            total = self.sum[total, conjugate]
        return total

    def structure_constants(self) -> Int64[np.ndarray, "k k k"]:
        """Digit c of t^i t^j at [c, i, j]: multiplication as a bilinear map of digits."""
        basis = self.p ** np.arange(self.k)
        return np.moveaxis(self.digits[self.product[np.ix_(basis, basis)]], -1, 0)

    def irreducible_quadratic(self) -> tuple[int, int]:
        """The first (a, b) for which x² + a x + b has no root."""
        x = np.arange(self.q)
        for a, b in itertools.product(x, x):
            if not np.any(self.sum[self.sum[self.product[x, x], self.product[a, x]], b] == 0):
                return int(a), int(b)
        raise AssertionError("every finite field has an irreducible quadratic")
