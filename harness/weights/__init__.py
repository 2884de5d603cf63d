"""Weights that a model starts from: ours, published ones, a teacher's."""
