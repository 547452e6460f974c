"""`python3 -m harness <command>`."""

import sys

from harness.cli import main
from harness.core import ending

if __name__ == "__main__":
    ending.install()
    sys.exit(main(sys.argv[1:]))
