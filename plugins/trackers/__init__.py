"""Trackers beside MLflow: TensorBoard, Weights & Biases."""
