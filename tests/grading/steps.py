"""Counts the work of regular expressions and of the functions that use them, in steps instead of seconds.

`re` cannot say how many steps a match took, and a clock says something else on every machine. So `Matcher` runs a
parsed pattern as `re` does: by backtracking, without memory of what failed before. Its steps are those of `re` but for
a constant factor (`re` finds literal prefixes faster), and they are the same numbers on every machine.

`count` adds up what a Python function does: lines run, characters that methods of strings and slices of its text pass
over, and the work of its patterns.
"""

import re
import sys
from contextlib import contextmanager
from functools import cache
from re import _compiler, _constants, _parser

from diver.core.patterns import Later

REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
SINGLE = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)


class TooMany(Exception):
    """More steps than the limit."""


class Steps:
    """A number of steps that may not pass a limit."""

    def __init__(self, limit=float("inf")):
        self.taken, self.limit = 0, limit

    def add(self, n=1):
        self.taken += n
        if self.taken > self.limit:
            raise TooMany


class Known(dict):
    """Character -> whether something is true of it, such as that it is in a set; "" stands for the end of the text."""

    def __init__(self, is_true):
        self.is_true = is_true

    def __missing__(self, character):
        self[character] = found = bool(self.is_true(character))
        return found


class Matcher:
    """A pattern as a backtracking matcher; a part is a function of a position and of what has to match after it."""

    def __init__(self, pattern):
        parsed = _parser.parse(pattern.pattern, pattern.flags)
        self.steps, self.state, self.groups = Steps(), parsed.state, {}
        self.whole = self.sequence(parsed, pattern.flags)
        self.may_begin = Known(self.begins(parsed, pattern.flags))

    def match(self, text, start=0, end=None, least=0):
        """Where the match that begins at `start` and ends at `least` or later ends, or None."""
        if not self.may_begin[text[start : start + 1]]:
            self.steps.add()
            return None
        self.text, self.end, self.groups = str(text), len(text) if end is None else end, {}
        ends = []
        found = self.whole(start, lambda i: i >= least and (ends.append(i) or True))
        return ends[-1] if found else None

    def fullmatch(self, text, start=0, end=None):
        return self.match(text, start, end, len(text) if end is None else end)

    def finditer(self, text):
        """Start and end of every match; no two are empty at the same place."""
        start, spans = 0, []
        while start <= len(text):
            is_after_empty = bool(spans) and spans[-1] == (start, start)
            end = self.match(text, start, least=start + is_after_empty)
            if end is None:
                start += 1
            else:
                spans.append((start, end))
                start = end
            self.steps.add()
        return spans

    def search(self, text):
        """Start and end of the first match, or None."""
        for start in range(len(text) + 1):
            self.steps.add()
            if (end := self.match(text, start)) is not None:
                return start, end
        return None

    def sequence(self, items, flags):
        parts = [self.part(operation, argument, flags) for operation, argument in items]
        if len(parts) == 1:
            return parts[0]

        def run(i, then, n=0):
            if n == len(parts):
                return then(i)
            return parts[n](i, (lambda j: run(j, then, n + 1)) if n + 1 < len(parts) else then)

        return run

    def part(self, operation, argument, flags):
        if operation in SINGLE:
            known = self.single(operation, argument, flags)

            def character(i, then):
                self.steps.add()
                return i < self.end and known[self.text[i]] and then(i + 1)

            return character
        build = getattr(self, {"ASSERT": "assert_"}.get(str(operation), str(operation).lower()))
        return build(argument, flags)

    def single(self, operation, argument, flags):
        state = _parser.State()  # the flags of the whole pattern would be added again, and `(?-i:a)` takes one away
        state.flags = flags
        return Known(_compiler.compile(_parser.SubPattern(state, [(operation, argument)]), flags).fullmatch)

    def branch(self, argument, flags):
        """Ways that cannot begin with the character at a position fail in one step, and are not called."""
        ways = [(self.sequence(way, flags), self.begins(way, flags)) for way in argument[1]]
        possible = {}

        def run(i, then):
            here = self.text[i : i + 1] if i < self.end else ""
            if here not in possible:
                possible[here] = [way for way, begins in ways if begins(here)]
            self.steps.add(len(ways) - len(possible[here]))
            return any(way(i, then) for way in possible[here])

        return run

    def begins(self, items, flags):
        """Whether items may begin with a character, or with "" at the end of the text."""
        sets, anything = self.first_sets(items, flags)
        return lambda character: anything or (character and any(known[character] for known in sets))

    def first_sets(self, items, flags):
        """The sets of which one has the first character of items, and whether they may begin in another way.

        What stands before that character and takes a constant number of steps is passed over.
        """
        found = []
        for operation, argument in items:
            looks_back = operation in (_constants.ASSERT, _constants.ASSERT_NOT) and argument[0] < 0
            if operation is _constants.AT or looks_back:
                continue
            if operation in SINGLE:
                parts = [([self.single(operation, argument, flags)], False)]
            elif operation in REPEATS:
                sets, otherwise = self.first_sets(argument[2], flags)
                parts = [(sets, otherwise or argument[0] == 0)]
            elif operation is _constants.SUBPATTERN:
                _, added, removed, inner = argument
                parts = [self.first_sets(inner, (flags | added) & ~removed)]
            elif operation is _constants.BRANCH:
                parts = [self.first_sets(way, flags) for way in argument[1]]
            else:
                break
            found += [known for sets, _ in parts for known in sets]
            if not any(otherwise for _, otherwise in parts):
                return found, False
        return found, True

    def subpattern(self, argument, flags):
        group, added, removed, items = argument
        inner = self.sequence(items, (flags | added) & ~removed)

        def run(i, then):
            before = self.groups.get(group)

            def closed(j):
                self.groups[group] = (i, j)
                return then(j)

            if inner(i, closed):
                return True
            self.groups[group] = before
            return False

        return run if group is not None else inner

    def max_repeat(self, argument, flags):
        least, most, (*items,) = argument
        if len(items) == 1 and items[0][0] in SINGLE:
            known = self.single(*items[0], flags)

            def run_of_characters(i, then):
                j, last = i, min(self.end, i + most)
                while j < last and known[self.text[j]]:
                    j += 1
                self.steps.add(j - i + (j - i < most))
                return any(then(k) for k in range(j, i + least - 1, -1))

            return run_of_characters
        inner = self.sequence(items, flags)

        def run(i, then, n=0):
            self.steps.add()
            more = n < most and inner(i, lambda j: (j > i or n < least) and run(j, then, n + 1))
            return more or (n >= least and then(i))

        return run

    def min_repeat(self, argument, flags):
        least, most, items = argument
        inner = self.sequence(items, flags)

        def run(i, then, n=0):
            self.steps.add()
            if n >= least and then(i):
                return True
            return n < most and inner(i, lambda j: (j > i or n < least) and run(j, then, n + 1))

        return run

    def atomic(self, inner):
        """Matches in one way only, which is not taken back."""

        def run(i, then):
            ends = []
            return inner(i, lambda j: ends.append(j) or True) and then(ends[-1])

        return run

    def possessive_repeat(self, argument, flags):
        return self.atomic(self.max_repeat(argument, flags))

    def atomic_group(self, argument, flags):
        return self.atomic(self.sequence(argument, flags))

    def around(self, argument, flags, wanted):
        """What stands before or after a position, or does not."""
        direction, items = argument
        inner, back = self.sequence(items, flags), items.getwidth()[0] if direction < 0 else 0

        def run(i, then):
            self.steps.add()
            found = i >= back and inner(i - back, lambda j: True)
            return found == wanted and then(i)

        return run

    def assert_(self, argument, flags):
        return self.around(argument, flags, True)

    def assert_not(self, argument, flags):
        return self.around(argument, flags, False)

    def at(self, where, flags):
        one = _compiler.compile(_parser.SubPattern(self.state, [(_constants.AT, where)]), flags)

        def run(i, then):
            self.steps.add()
            return one.match(self.text, i, self.end) is not None and then(i)

        return run

    def groupref(self, group, flags):
        def run(i, then):
            span = self.groups.get(group)
            word = None if span is None else self.text[slice(*span)]
            self.steps.add(len(word or "") + 1)
            return word is not None and self.text.startswith(word, i, self.end) and then(i + len(word))

        return run


_matcher = cache(Matcher)  # those of the whole package take seconds


def matcher_of(pattern, steps):
    """The matcher of a pattern, from now on with these steps."""
    matcher = _matcher(pattern)
    matcher.steps = steps
    return matcher


class CountedText(str):
    """A text that counts what is cut out of it or looked for in it."""

    steps = Steps()

    def __getitem__(self, key):
        part = super().__getitem__(key)
        self.steps.add(len(part))
        return CountedText(part)

    def __contains__(self, part):
        self.steps.add(len(self))
        return super().__contains__(part)


class CountedPattern:
    """A compiled pattern that counts: a scan by the characters it passes over, a match at one place by its steps.

    A scan that begins anywhere is linear, since every pattern is asked for that by itself.
    """

    def __init__(self, pattern, steps):
        self.pattern_, self.steps, self.matcher = pattern, steps, matcher_of(pattern, steps)

    def __getattr__(self, name):
        return getattr(self.pattern_, name)

    def match(self, text, start=0, end=sys.maxsize):
        self.matcher.match(text, start, min(end, len(text)))
        return self.pattern_.match(text, start, end)

    def fullmatch(self, text, start=0, end=sys.maxsize):
        self.matcher.fullmatch(text, start, min(end, len(text)))
        return self.pattern_.fullmatch(text, start, end)

    def search(self, text, start=0, end=sys.maxsize):
        found = self.pattern_.search(text, start, end)
        self.steps.add((found.end() if found else min(end, len(text))) - start + 1)
        return found

    def finditer(self, text, start=0, end=sys.maxsize):
        at = start
        for found in self.pattern_.finditer(text, start, end):
            self.steps.add(found.end() - at + 1)
            at = found.end()
            yield found
        self.steps.add(min(end, len(text)) - at + 1)

    def findall(self, text):
        self.steps.add(len(text) + 1)
        return self.pattern_.findall(text)

    def sub(self, new, text, count=0):
        self.steps.add(len(text) + 1)
        return self.pattern_.sub(new, text, count)

    def split(self, text, maxsplit=0):
        self.steps.add(len(text) + 1)
        return self.pattern_.split(text, maxsplit)


@contextmanager
def counted(modules, steps, monkeypatch):
    """Every pattern of the modules counts, those that their functions hand to `re` as well."""
    made, compiled = {}, re._compile

    def counting(pattern, flags=0):
        if isinstance(pattern, CountedPattern):
            return pattern
        pattern = compiled(pattern, flags)
        if pattern not in made:
            made[pattern] = CountedPattern(pattern, steps)
        return made[pattern]

    with monkeypatch.context() as patch:
        for module in modules:
            for name, given in vars(module).items():
                value = given.compiled if isinstance(given, Later) else given
                if isinstance(value, re.Pattern):
                    patch.setattr(module, name, counting(value))
                elif isinstance(value, list) and name.isupper():
                    patch.setattr(module, name, [(counting(rule), *rest) for rule, *rest in value])
        patch.setattr(re, "_compile", counting)
        yield


def count(function, text, steps, files):
    """The steps of one call; lines are counted in functions of these files."""
    CountedText.steps, before = steps, steps.taken

    def line(frame, event, argument):
        if event == "line":
            steps.add()
        return line

    def called(frame, event, argument):
        if event == "c_call" and isinstance(whose := getattr(argument, "__self__", None), str):
            steps.add(1 if argument.__name__ in ("startswith", "endswith") else len(whose))

    sys.setprofile(called)
    sys.settrace(lambda frame, event, argument: line if frame.f_code.co_filename in files else None)
    try:
        function(CountedText(text))
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return steps.taken - before
