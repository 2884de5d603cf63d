"""What one variant is, in words, numbers and a picture: `python -m harness describe`."""
