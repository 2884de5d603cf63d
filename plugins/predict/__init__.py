"""Predictions for new texts, as files: `predict`."""

from harness.commands import Command

PREDICT = Command(
    "Predict labels of new texts, or write token vectors",
    "harness.plugins.predict.options:Predict",
    "harness.plugins.predict.predict:main",
)
