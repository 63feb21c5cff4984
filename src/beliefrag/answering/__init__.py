"""Preparing an answer: what a prompt shows (`packing`), what an answer cites (`citing`), and how it is written.

`sentences` checks an answer in sentences; `conversation` has what a follow-up question needs of the turns before it.
"""
