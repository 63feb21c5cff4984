"""Answers over the network: the same episodes as `beliefrag ask`, for other programs."""
