"""Extensions of BeliefRAG in a package of their own."""
