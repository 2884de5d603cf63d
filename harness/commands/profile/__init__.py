"""What a variant costs, without data and training: counts, times and memory of fresh processes, and time by component."""
