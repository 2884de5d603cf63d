"""Training: the loop over steps, fine-tuning, pretraining, their evaluation, and resuming."""
