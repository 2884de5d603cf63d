"""Pictures of a report: what the chapters of plug-ins that draw have in common, and their files as PNG."""
