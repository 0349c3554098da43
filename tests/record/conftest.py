"""Hypothesis without its deadline: what a busy machine takes is no test's business."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
