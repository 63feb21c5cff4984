"""Bridges to other frameworks: their retrievers search for BeliefRAG, and BeliefRAG answers in their chains.

`langchain`, `llamaindex` and `otel` (OpenTelemetry) each need the extra of their name. Importing this package imports
none of them.
"""
