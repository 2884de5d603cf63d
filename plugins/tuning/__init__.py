"""Search of settings: the same trials for every arm, before the runs of a study."""
