"""What a model learns from text alone: `build.build` makes an objective of its name."""
