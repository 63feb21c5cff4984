"""What people would pick instead, on the same weights, passages and questions."""
