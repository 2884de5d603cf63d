"""The configuration: its typed schema, its composition by Hydra, and what follows from what was composed."""
