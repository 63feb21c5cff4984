"""The study of quality against cost."""

from beliefrag.studies.frontier.study import FRONTIER

__all__ = ["FRONTIER"]
