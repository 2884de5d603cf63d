"""Pictures of a report: tools shared by the chapters of plug-ins that draw, and their files as PNG."""
