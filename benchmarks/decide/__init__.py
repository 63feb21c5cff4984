"""The comparison that decides: what retrieval gains and what control gains, told apart."""
