"""Patterns that are compiled at their first use."""

import re
import subprocess
import sys

import pytest

from diver.core.patterns import compile_later


def test_a_pattern_is_that_of_re():
    later, pattern = compile_later("a(B)?", re.IGNORECASE), re.compile("a(B)?", re.IGNORECASE)
    for text in ("AB-ab-a", "a", ""):
        for method in ("search", "match", "fullmatch"):
            ours, theirs = getattr(later, method)(text), getattr(pattern, method)(text)
            assert (ours and (ours.span(), ours.groups())) == (theirs and (theirs.span(), theirs.groups()))
        assert later.findall(text) == pattern.findall(text) and later.sub("x", text) == pattern.sub("x", text)
    assert (later.search("aab", 1).start(), later.pattern, later.flags) == (1, pattern.pattern, pattern.flags)


def test_a_pattern_with_an_error_is_told_at_its_use():
    wrong = compile_later("(")
    with pytest.raises(re.error):
        wrong.search("")


def test_no_long_pattern_is_compiled_before_a_response_is_graded():
    """Every process of `diver`, and every worker, imports the graders."""
    code = """
import re
lengths, compiles = [], re.compile
def counted(pattern, flags=0):
    lengths.append(len(pattern))
    return compiles(pattern, flags)
re.compile = counted
import diver.grading.grading
print(max(lengths))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4000
