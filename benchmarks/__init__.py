"""Measurements, each one command; results are committed under docs/results."""
