"""`python3 -m harness <command>`."""

import sys

from harness.cli import main

sys.exit(main(sys.argv[1:]))
