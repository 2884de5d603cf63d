"""Weights that a model starts from or leaves: ours, published ones, a teacher's; and the run that has them."""
