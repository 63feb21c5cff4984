"""The weights of embedded models: which are known, where they are kept, and how they are downloaded."""

from beliefrag.models.weights.catalogue import CATALOGUE, DEFAULT, Weights, find
from beliefrag.models.weights.store import is_present, missing_identity, path_of, remove, resolve

__all__ = ["CATALOGUE", "DEFAULT", "Weights", "find", "is_present", "missing_identity", "path_of", "remove", "resolve"]
