"""GLUE by protocol: what each paper would print of the same weights, and how much of it is protocol."""
