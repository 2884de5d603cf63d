"""Settings that are searched: the same trials for every arm, before the runs of a study."""
