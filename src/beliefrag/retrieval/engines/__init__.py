"""Search on engines that people already run: PostgreSQL, OpenSearch and Elasticsearch."""
