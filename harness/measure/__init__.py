"""The instruments: size, FLOPs, bytes moved, latency, memory."""
