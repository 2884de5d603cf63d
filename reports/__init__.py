"""What a study means: reads the tracking store alone and writes tables, pictures and a summary to share."""
