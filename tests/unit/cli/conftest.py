"""Tests of the command line assert no times, so Hypothesis must not either."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
