"""How well retrieval finds what a question needs, and how much of it packing keeps: no model is asked."""
