"""Formats of the report for a paper and for other programs: LaTeX, Parquet."""
