"""Preparing an answer: which sentences a prompt shows (`packing`), and which ones an answer cites (`citing`)."""
