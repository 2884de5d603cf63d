"""Settings tuned for each arm with an equal number of trials, before the runs that are reported."""
