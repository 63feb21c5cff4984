"""Linked retrieval: search, follow the names that passages mention, and rank what was found."""
