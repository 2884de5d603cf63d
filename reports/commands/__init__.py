"""The commands of the report beside itself, each a module with `main(options) -> int`, the exit code."""
