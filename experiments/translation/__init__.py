"""Machine translation with embeddings on the sphere, discrete and continuous: the paper's main application.

Imported, it is an experiment like the others: FULL, main and report. See README.md for the command line.
"""

from translation.table import FULL, main, report

__all__ = ["FULL", "main", "report"]
