"""Claims of papers and other sources, held against what is counted, timed and trained here. A claim is data: conf/claims/."""
