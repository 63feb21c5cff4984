"""`python -m beliefrag` is the same as `beliefrag`."""

import sys

from beliefrag.cli import main

if __name__ == "__main__":
    sys.exit(main())
