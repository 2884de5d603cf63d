"""What a run writes: its own log, line by line, and its run in MLflow."""
