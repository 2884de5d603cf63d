"""Which runs are compared with which, and what their numbers show: no text, no picture."""
