"""Published checkpoints into our models: one module a family, each translating a config and the names of its tensors."""
