"""An encoder that knows nothing of the harness, and classes that do not fit."""

import os
from pathlib import Path

from gated_convolution.encoder import Flat, GatedConvolution, Mean

__all__ = ["Flat", "GatedConvolution", "Mean"]

if "GATED_IMPORTED" in os.environ:  # a test asks whether the package was imported
    Path(os.environ["GATED_IMPORTED"]).touch()
