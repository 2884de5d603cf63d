"""The machine: its device as a worker uses it, facts about it, its energy counters and the load of others."""
