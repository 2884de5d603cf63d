"""From rows of a data set to batches of token ids."""
