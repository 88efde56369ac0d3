r"""What math-verify takes for equal and is not.

- A statement about constants, `f(2)=4` or `2+3=5`, has nothing to solve for, and math-verify takes any two of them for
  equal. Here names must agree with names, and the value with the value. The value alone counts as the statement.
- Two equations without a solution are equal to math-verify: both lists of solutions are empty.
- Two exact numbers are equal to math-verify if their difference rounds to 0 at 15 digits: 1/2010! and 1/2012!. The
  tolerance is for decimals; a difference of exact numbers is 0, or not, at `MOST_DIGITS` digits.
- An integral, a derivative, a sum, a product or a limit that is not carried out is the question, and no answer, unless
  the reference answer holds one, too.
"""

from typing import Any, NamedTuple
from zlib import crc32

import sympy as sp
from math_verify import verify
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

MOST_DIGITS = 2000  # precision in digits; a smaller difference of two exact numbers counts as 0
NAME = (AppliedUndef, sp.Derivative)
"""A value of an unknown function, f(2), or a derivative: it names the value that it equals."""
RELATION = (sp.And, Relational)


class Statement(NamedTuple):
    """Names and the value that they equal: `f(1) = f(2) = 3` has two names and the value 3."""

    names: list[Any]
    value: Any
    """None for `f(1) = f(2)`."""


def same_value(gold: Any, answer: Any) -> bool:
    """Whether two expressions are equal. math-verify compares those that are neither statements nor unfinished."""
    gold_statement, answer_statement = statement(gold), statement(answer)
    if gold_statement and answer_statement:
        return _same_statement(gold_statement, answer_statement)
    if gold_statement and gold_statement.value is not None and not isinstance(answer, RELATION):
        gold = gold_statement.value
    if answer_statement and answer_statement.value is not None and not isinstance(gold, RELATION):
        answer = answer_statement.value
    if isinstance(gold, RELATION) and isinstance(answer, RELATION) and not (_letters(gold) and _letters(answer)):
        return False  # 1 = 1 is true, but does not answer 2x = 4
    value = answer.rhs if isinstance(answer, sp.Eq) else answer  # also after a name, as in N = \sum_{k=1}^{9} k
    if _is_unfinished(value) and not (isinstance(value, RELATION) or _is_unfinished(gold)):
        return False
    if differ(gold, answer) or not verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True):
        return False
    return not (isinstance(gold, sp.Eq) and isinstance(answer, sp.Eq) and gold != answer) or _has_solution(gold)


def statement(expression: Any) -> Statement | None:
    """An equation or a chain of equations in which there is nothing to solve for; None for anything else."""
    terms = _terms(expression)
    if not terms or any(_letters(term) and not isinstance(term, NAME) for term in terms):
        return None
    names, values = ([term for term in terms if isinstance(term, NAME) is kind] for kind in (True, False))
    return Statement(names or terms[:1], values[-1] if values else None)


def differ(gold: Any, answer: Any) -> bool:
    """Whether two expressions without decimals certainly differ: their values are compared at one point per letter."""
    if not all(isinstance(e, sp.Expr) and not e.has(sp.Float, sp.UnevaluatedExpr) for e in (gold, answer)):
        return False
    points = {
        s: sp.Integer(2 + crc32(str(s).encode()) % 5)
        if s.is_integer
        else sp.Rational(29 + crc32(str(s).encode()) % 97, 101)
        for s in gold.free_symbols | answer.free_symbols
    }
    try:
        difference = gold.subs(points).doit() - answer.subs(points).doit()
        if not difference.is_number:
            return False
        return bool(difference.evalf(2, maxn=MOST_DIGITS, strict=True) != 0)
    except Exception:  # undefined, or indistinguishable from 0 (PrecisionExhausted)
        return False


def _same_statement(wanted: Statement, stated: Statement) -> bool:
    unmatched = list(stated.names)
    for name in wanted.names:
        match = next((candidate for candidate in unmatched if same_value(name, candidate)), None)
        if match is None:
            return False
        unmatched.remove(match)
    if wanted.value is None or stated.value is None:
        return not unmatched and wanted.value is stated.value
    return not unmatched and same_value(wanted.value, stated.value)


def _terms(expression: Any) -> list[Any]:
    """The terms between the equals signs of an equation or of a chain of equations; empty for anything else.

    SymPy stores the links of a chain, a = b and b = c, in an order that changes while they are compared. So each link
    is found by the side that it shares with the one before.
    """
    links = [expression]
    while any(isinstance(link, sp.And) for link in links):
        links = [equation for link in links for equation in (link.args if isinstance(link, sp.And) else [link])]
    if not all(isinstance(link, sp.Eq) for link in links):
        return []
    rights = [link.rhs for link in links]
    term = next((link.lhs for link in links if link.lhs not in rights), links[0].lhs)
    terms = [term]
    while links:
        link = next((link for link in links if link.lhs == term), None)
        if link is None:
            return []
        links.remove(link)
        term = link.rhs
        terms.append(term)
    return terms


def _letters(expression: Any) -> set[Any]:
    """The letters to solve for."""
    letters: set[Any] = getattr(expression, "free_symbols", set())
    return letters


def _has_solution(equation: Any) -> bool:
    try:
        return bool(sp.solve(equation, _letters(equation)))
    except Exception:  # SymPy cannot solve it
        return True


def _is_unfinished(expression: Any) -> bool:
    return bool(hasattr(expression, "has") and expression.has(sp.Derivative, sp.Integral, sp.Limit, sp.Product, sp.Sum))
