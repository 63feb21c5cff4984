"""The command line. A command imports what it needs when it runs so that the help is quick."""

from beliefrag.cli.app import main

__all__ = ["main"]
