"""What one variant is, in words, numbers and a drawing: `python -m harness describe`."""
