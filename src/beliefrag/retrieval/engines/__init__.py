"""Search on engines that people already run: PostgreSQL, OpenSearch, Elasticsearch and Milvus.

`engine` says what an engine must be able to do, `retriever` makes a retriever of any engine (ties, changes, the scale
of scores), and each engine has a file that searches it and one that fills it.
"""
