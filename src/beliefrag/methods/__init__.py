"""The methods: one file each, all on the protocol in `beliefrag.controller`."""

from beliefrag.methods.beliefrag import BeliefRAGMethod

__all__ = ["BeliefRAGMethod"]
