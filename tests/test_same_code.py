"""scripts/same_code.py on changes of prose, and on changes of code."""

import pytest
from same_code import code

BEFORE = '''
"""A module."""
LIMIT = 3

def check(size: int, log) -> None:
    """Raises for a size above LIMIT."""
    if size > LIMIT:
        raise ValueError(f"size {size}: too large")
    print("size", size, f"of {LIMIT}")
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module.", "A file."),
        ("Raises for a size above LIMIT.", "Sizes above LIMIT are refused."),
        (": too large", " is above the limit"),
        ('"size", size', '"a size of", size'),
        ("LIMIT = 3", "LIMIT = 3  # a comment"),
    ],
)
def test_prose_is_no_code(old, new):
    assert BEFORE.count(old) == 1 and code(BEFORE.replace(old, new)) == code(BEFORE)


@pytest.mark.parametrize(
    ("old", "new"), [("= 3", "= 4"), ("size > LIMIT", "size >= LIMIT"), ("{size}", "{LIMIT}"), ("{LIMIT}", "{size}")]
)
def test_code_is_code(old, new):
    assert BEFORE.count(old) == 1 and code(BEFORE.replace(old, new)) != code(BEFORE)


def test_a_string_that_is_no_message_is_code():
    assert code("x = 'a'") != code("x = 'b'")
    assert code("x = f\"{d['a']} of\"") != code("x = f\"{d['b']} of\"")
