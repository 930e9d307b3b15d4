"""One restart of the search for the lowest energy: a start, L-BFGS to convergence, and hops while they improve it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from unclump.codes.search.loops import Flag, Points, minimise_energy
from unclump.codes.search.moves import into_deepest_holes
from unclump.codes.search.pool import Candidate
from unclump.codes.search.spacing import estimate_spacing
from unclump.codes.search.starts import QUICK_KINDS, make_start
from unclump.kernels import Kernel

_ITERATIONS = 3000


def default_restarts(n: int, d: int) -> int:
    """Enough restarts to reproduce the table of Thomson's problem up to 60 points."""
    return max(2, min(16, int(2_000_000 / (n * n * d))))


@dataclass(frozen=True)
class EnergySearch:
    """Search for n points in d dimensions with the smallest sum of a kernel over pairs."""

    n: int
    d: int
    seed: int
    init: Points | str | None
    kernel: Kernel

    def __call__(self, number: int, flag: Flag, report: Callable[[float], None]) -> Candidate:
        """Run restart `number`; the flag stops it early with the best so far. The score is minus the energy."""
        generator = np.random.default_rng([self.seed, number])
        if isinstance(self.init, np.ndarray) and number == 0:
            first = self.init.copy()
        else:
            kinds = (self.init,) if isinstance(self.init, str) else QUICK_KINDS
            first = make_start(self.n, self.d, kinds[number % len(kinds)], generator)
            first = first + 1e-3 * estimate_spacing(self.n, self.d) * generator.standard_normal(first.shape)
        best = self._descend(first, flag)
        best.starts = 1
        report(best.score)
        idle, patience = 0, min(self.n // 2, 1 + 300_000 // (self.n * self.n * self.d))
        while idle < patience and not flag[0]:
            trial = self._descend(into_deepest_holes(best.points, generator), flag)
            best.hops += 1
            idle += 1
            if trial.score > best.score + 1e-11 * abs(best.score):
                idle = 0
                best.points, best.score = trial.points, trial.score
                report(best.score)
        return best

    def _descend(self, x: Points, flag: Flag) -> Candidate:
        """Minimise to rounding error."""
        spacing = estimate_spacing(self.n, self.d)
        return Candidate(x, -minimise_energy(x, self.kernel, _ITERATIONS, self._tolerance, spacing, flag))

    @cached_property
    def _tolerance(self) -> float:
        """Rounding error of an energy, from that of pairs at right angles."""
        typical: float = self.kernel(torch.tensor(2.0, dtype=torch.float64)).item()
        return 1e-16 * self.n * self.n * abs(typical)
