"""The instruments: size, FLOPs, bytes moved, latency, memory."""

VERSION = 5
"""Raised when an instrument changes its results; part of the conditions, so that old and new results are not compared."""
