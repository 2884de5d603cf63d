"""Running text: where documents come from, how they become a stream of ids, and the sequences that are drawn from it."""
