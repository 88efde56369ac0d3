"""A busy machine is slow, not wrong: no test of a property may fail by its time."""

try:
    from hypothesis import settings
except ImportError:  # the environments of verl and TRL have no tests of properties
    pass
else:
    settings.register_profile("any-machine", deadline=None)
    settings.load_profile("any-machine")
