"""Runs episodes: the loop, the model calls of a method, and putting the parts together."""
