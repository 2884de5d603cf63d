"""What several plug-ins use, and nothing of the harness itself."""
