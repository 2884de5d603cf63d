"""Fair comparisons: variants resized until they cost as much as the baseline of their command."""
