"""What a variant costs, without data and training: counts, times and memory from processes of their own, time by component."""
