"""The log of a run in its folder, and the run in MLflow."""
