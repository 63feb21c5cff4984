"""The study of which parts create the gain: ablated corrections, and interventions on answerability."""

from beliefrag.studies.mechanism.study import MECHANISM

__all__ = ["MECHANISM"]
