"""From a command to its results: planning, the identity of runs, their workers, and timing sessions."""
