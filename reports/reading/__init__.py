"""Runs as the tracking store has them: SQLite and MLflow, the conditions that select them, the folders of their files."""
