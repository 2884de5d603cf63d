"""Chapters of the report for studies that few have: tuned or resized arms, costs of a quality, minimal pairs."""
