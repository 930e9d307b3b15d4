"""`python experiments/translation`: the command line."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # the experiments, so that this folder is the package `translation`

from translation.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
