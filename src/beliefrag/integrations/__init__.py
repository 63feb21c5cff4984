"""Bridges to other frameworks: their retrievers search for us, and our index and our answers work in their chains.

`beliefrag.integrations.langchain` and `beliefrag.integrations.llamaindex` each need the extra of their name.
Importing this package imports neither.
"""
