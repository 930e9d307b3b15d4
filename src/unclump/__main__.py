"""`python -m unclump`: the command line."""

import sys

from unclump.cli import main

sys.exit(main())
