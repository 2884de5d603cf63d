"""The instruments, each of one thing: size, FLOPs, bytes moved, a call's time, memory, energy, the state of the machine."""

VERSION = 3
"""Raised when an instrument would read the same thing otherwise; part of the protocol, so that old and new are not compared."""
