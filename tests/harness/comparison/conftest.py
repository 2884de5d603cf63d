"""Runs in memory, and small real tracking stores."""

from runs import ended, make_run, pretrained, scored, study_of, timed, tracking, typical

__all__ = ["ended", "make_run", "pretrained", "scored", "study_of", "timed", "tracking", "typical"]
