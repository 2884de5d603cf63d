"""The instruments: size, FLOPs, latency, throughput and memory, each in a pass of its own."""

VERSION = 1
"""Raised when an instrument would read the same thing otherwise; part of the protocol, so that old and new are not compared."""
