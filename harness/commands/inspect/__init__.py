"""The inputs of a model for one item, and its attention over them: `python -m harness inspect`."""
