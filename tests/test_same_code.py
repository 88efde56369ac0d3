"""scripts/same_code.py on changes of prose, of names, and of code."""

import re

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


LOCALS = """
def counts(rows, limit):
    found = {}
    for name in rows:
        found[name] = sorted(part for part in rows[name] if part < limit)
    try:
        return max(found, key=lambda x: -len(found[x]))
    except ValueError as error:
        raise KeyError(f"{found}") from error
"""


@pytest.mark.parametrize(
    ("old", "new"), [("found", "rows_by_name"), ("part", "row"), ("error", "reason"), ("x", "label"), ("name", "label")]
)
def test_a_local_variable_may_have_another_name(old, new):
    renamed = re.sub(rf"\b{old}\b", new, LOCALS)
    assert renamed != LOCALS and code(renamed) == code(LOCALS)


@pytest.mark.parametrize(("old", "new"), [("rows", "table"), ("counts", "count"), ("found", "sorted"), ("key", "by")])
def test_a_parameter_a_function_and_a_shadowed_name_may_not(old, new):
    assert code(re.sub(rf"\b{old}\b", new, LOCALS)) != code(LOCALS)


def test_two_variables_that_become_one_are_a_change_of_code():
    assert code(LOCALS.replace("name", "part")) != code(LOCALS)
    assert code("def f():\n    a = 1\n    b = 2\n    return a") != code("def f():\n    b = 1\n    b = 2\n    return b")
    assert code("def f():\n    a = 1\n    b = 2\n    return a") != code("def f():\n    a = 1\n    b = 2\n    return b")
