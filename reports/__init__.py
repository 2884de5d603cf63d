"""The report on a study: reads the tracking store and writes tables, pictures and a summary."""
