"""The one loop over steps, and what is trained by it: a pretraining, a task."""
