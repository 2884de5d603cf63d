"""The vectors that a model makes of a text: `python -m harness features`."""
