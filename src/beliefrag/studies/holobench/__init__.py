"""The study of questions about sets of rows: how many of the needed rows are found, and how many are read for it."""

from beliefrag.studies.holobench.study import HOLOBENCH

__all__ = ["HOLOBENCH"]
