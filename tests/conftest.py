"""A busy machine is slow, not wrong: no test of a property may fail by its time.

`make test` tries 20 examples of each property, `make test-slow` 100; a test that needs n times as many asks for
`settings(max_examples=n * settings().max_examples)`.
"""

try:
    from hypothesis import settings
except ImportError:  # the environments of verl and TRL have no tests of properties
    pass
else:
    settings.register_profile("few", deadline=None, max_examples=20)
    settings.register_profile("many", deadline=None)
    settings.load_profile("few")
