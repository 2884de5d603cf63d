"""What a training step holds in memory, and the largest batch that fits: `python -m harness memory`."""
