"""The command line. Importing it is quick: a command imports what it needs when it runs."""

from beliefrag.cli.entry import main

__all__ = ["main"]
