"""Blocks of a semidefinite program: what its constraints are in a block, and their part of the normal equations."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Dense:
    """A block whose constraints are symmetric matrices, one a row of the program."""

    matrices: np.ndarray  # (rows, b, b)
    cost: np.ndarray  # (b, b)

    @property
    def size(self):
        return self.cost.shape[0]

    def apply(self, x, out):
        out += self._flat @ x.ravel()

    def adjoint(self, weights):
        return (weights @ self._flat).reshape(self.size, self.size)

    def add_schur(self, left, right, schur):
        products = left @ self.matrices @ right
        schur += self._flat @ ((products + products.swapaxes(1, 2)) / 2).reshape(len(schur), -1).T

    @property
    def _flat(self):
        return self.matrices.reshape(len(self.matrices), -1)


@dataclass
class Squares:
    """A block whose constraints, in some rows of the program, are sums of v v^T: values of sums of squares."""

    vectors: np.ndarray  # (rows, terms, b)
    rows: slice

    @property
    def size(self):
        return self.vectors.shape[2]

    @property
    def cost(self):
        return np.zeros((self.size, self.size))

    def apply(self, x, out):
        flat = self._flat
        out[self.rows] += np.einsum("ij,ij->i", flat @ x, flat).reshape(len(self.vectors), -1).sum(1)

    def adjoint(self, weights):
        weighted = self.vectors * weights[self.rows, None, None]
        return weighted.reshape(-1, self.size).T @ self._flat

    def add_schur(self, left, right, schur):
        terms, flat = self.vectors.shape[1], self._flat
        products = flat @ left @ flat.T
        products *= flat @ right @ flat.T
        for i in range(terms):
            for j in range(terms):
                schur[self.rows, self.rows] += products[i::terms, j::terms]

    @property
    def _flat(self):
        return self.vectors.reshape(-1, self.size)
