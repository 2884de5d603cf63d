"""A command from its plan to its results: what each run is, who runs it, and how variants are timed side by side."""
