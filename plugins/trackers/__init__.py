"""Trackers: MLflow, TensorBoard, Weights & Biases."""
