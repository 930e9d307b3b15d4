"""Arithmetic of small finite fields, as tables: enough for quadratic forms over them."""

import itertools
from functools import cached_property

import numpy as np
from jaxtyping import Int64

Table = Int64[np.ndarray, "q q"]


class Field:
    """The field of q = p^k elements, numbered 0 .. q - 1 by their digits to base p: `digits[a]`, lowest first.

    The digits are the coefficients of a polynomial in t, and t generates the nonzero elements. So 0 is zero, 1 is one,
    and for p = 2 the sum of a and b is ``a ^ b``.

    Example:
        >>> four = Field(2, 2)  # t * t = t + 1
        >>> four.product[2, 2].item(), four.sum[2, 1].item()
        (3, 3)
    """

    def __init__(self, p: int, k: int) -> None:
        self.p, self.k, self.q = p, k, p**k
        place = p ** np.arange(k)
        self.digits = np.arange(self.q)[:, None] // place % p
        self.sum: Table = (self.digits[:, None] + self.digits) % p @ place
        powers = next(powers for powers in map(self._powers, range(1, self.q)) if len(set(powers)) == self.q - 1)
        logarithm = np.zeros(self.q, dtype=np.int64)
        logarithm[powers] = np.arange(self.q - 1)
        self.product: Table = np.array(powers)[(logarithm[:, None] + logarithm) % (self.q - 1)]
        self.product[0] = self.product[:, 0] = 0

    def _powers(self, top: int) -> list[int]:
        """1, t, ..., t^(q - 2) where t^k is the polynomial numbered `top`."""
        digits = np.eye(self.k, dtype=np.int64)[0]
        powers = []
        for _ in range(self.q - 1):
            powers.append(int(digits @ self.p ** np.arange(self.k)))
            carry, digits = digits[-1], np.roll(digits, 1)
            digits[0] = 0
            digits = (digits + carry * self.digits[top]) % self.p
        return powers

    @cached_property
    def trace(self) -> Int64[np.ndarray, " q"]:
        """The sum of x, x^p, x^(p^2), ... for every x: a number below p, and a linear map."""
        total = conjugate = np.arange(self.q)
        for _ in range(self.k - 1):
            power = conjugate
            for _ in range(self.p - 1):
                power = self.product[power, conjugate]
            conjugate = power
            total = self.sum[total, conjugate]
        return total

    def structure(self) -> Int64[np.ndarray, "k k k"]:
        """Digit c of the product of t^i and t^j, at [c, i, j]: multiplication as a bilinear map of digits."""
        basis = self.p ** np.arange(self.k)
        return np.moveaxis(self.digits[self.product[np.ix_(basis, basis)]], -1, 0)

    def irreducible(self) -> tuple[int, int]:
        """The first (a, b) such that x² + a x + b has no root."""
        x = np.arange(self.q)
        for a, b in itertools.product(x, x):
            if not np.any(self.sum[self.sum[self.product[x, x], self.product[a, x]], b] == 0):
                return int(a), int(b)
        raise AssertionError("every finite field has an irreducible quadratic")
