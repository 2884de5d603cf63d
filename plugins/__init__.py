"""Plug-ins of this repository: each adds commands and chapters by the entry points of pyproject.toml, as any package can."""
