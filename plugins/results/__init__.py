"""Readers of results that other tools write, each a file; entry points of the group `harness.results`."""
