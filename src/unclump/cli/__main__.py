"""`python -m unclump.cli`."""

import sys

from unclump.cli import main

sys.exit(main())
