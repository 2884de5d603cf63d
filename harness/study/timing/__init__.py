"""Inference timing that differences can be read from: launches of all variants, interleaved in one session."""
