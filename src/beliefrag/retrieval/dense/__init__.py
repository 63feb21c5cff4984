"""Search by meaning: vectors of a small embedding model, alone or joined with BM25."""
