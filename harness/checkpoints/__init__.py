"""Weights that runs load and save: native checkpoints, published ones, teachers; and the runs that have them."""
