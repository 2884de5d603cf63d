"""Pretraining objectives; `build.build` makes one from its name."""
