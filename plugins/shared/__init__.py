"""Code that several plug-ins use, and the harness itself does not."""
