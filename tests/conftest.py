"""A busy machine is slow, not wrong: no test of a property may fail by its time."""

from hypothesis import settings

settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
