"""What a model is given of one item, and where it looks: `python -m harness.inspect`."""
