"""The configuration: its typed schema, composition by Hydra, resolution, and help."""
