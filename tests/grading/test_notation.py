"""Other names of the same thing are equal, both ways; names that look alike and mean something else are not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.core.types import Problem
from diver.grading import grade
from diver.grading.spelling import _SYNONYMS, unify

SAME = r"""
\varnothing ~ \emptyset
∅ ~ \varnothing
\dfrac{x}{2} ~ \frac{x}{2}
\tfrac{27}{8} ~ \cfrac{27}{8}
x \le 3 ~ x \leq 3
x \leqslant 3 ~ x ⩽ 3
x \ge 3 ~ x \geqslant 3
x \ne 3 ~ x \neq 3
x \lt 3 ~ x < 3
2 \cdot x ~ 2 \times x
2 \ast x ~ 2x
\lbrace 1,2 \rbrace ~ \{1,2\}
\lparen 1,2 \rparen ~ (1,2)
\lvert x \rvert ~ |x|
[1,\infin) ~ [1,\infty)
\R ~ \mathbb{R}
ℝ ~ \Bbb{R}
\mathbb{R} \setminus \{1\} ~ \mathbb{R} \backslash \{1\}
\operatorname{sin} x ~ \sin x
\mathrm{sin} x + 1 ~ 1 + \sin x
\operatorname{arctan} x ~ \arctan x
\tg x ~ \tan x
\dbinom{n}{2} ~ \binom{n}{2}
90\degree ~ 90^\circ
\{x \mid x>2\} ~ \{x | x>2\}
p \land q ~ p \wedge q
\lnot p ~ \neg p
a \to b ~ a \rightarrow b
1,2,\ldots,n ~ 1,2,\dots,n
\mathrm{e}^{x} ~ e^{x}
3 + 2\mathrm{i} ~ 2i + 3
\varphi + 1 ~ 1 + \phi
\boldsymbol{x} ~ x
(1,2) \bigcup (3,4) ~ (1,2) \cup (3,4)
x \isin [1,2] ~ x \in [1,2]
"""
OTHER = r"""
\varnothing ~ 0
\varnothing ~ \{0\}
x \le 3 ~ x < 3
x \leqslant 3 ~ x \geqslant 3
x \ne 3 ~ x = 3
\lparen 1,2 \rparen ~ [1,2]
\lbrace 1,2 \rbrace ~ \{1,3\}
[1,\infin) ~ (1,\infty)
\R ~ \mathbb{Z}
\R ~ R
\operatorname{sin} x ~ \cos x
\tg x ~ \cot x
\dbinom{n}{2} ~ \dfrac{n}{2}
90\degree ~ 9
p \land q ~ p \lor q
a \to b ~ b \to a
\varphi ~ \theta
\mathrm{e}^{x} ~ x
(1,2) \bigcup (3,4) ~ (1,2) \bigcap (3,4)
5\text{min} ~ \min
"""


def pairs(table):
    rows = [line.split(" ~ ") for line in table.strip().splitlines()]
    return [(a, b) for pair in rows for a, b in (pair, pair[::-1])]


@pytest.mark.parametrize(("table", "expected"), [(SAME, "correct"), (OTHER, "wrong")], ids=["same", "other"])
def test_synonyms(table, expected):
    grades = grade([(rf"\boxed{{{answer}}}", Problem("p", "q", gold)) for answer, gold in pairs(table)])
    assert [pair for pair, given in zip(pairs(table), grades, strict=True) if given != expected] == []


def test_every_synonym_has_one_spelling():
    for name, spelling in _SYNONYMS.items():
        assert unify(f"1{name} 2") == f"1{spelling} 2" and unify(spelling).strip() == spelling
        assert unify(f"{name}x") == f"{name}x"  # another command


@given(st.text("\\{}()[]$^_ .,0159eExif√²½→∅" + "abcmnrt", max_size=80))
def test_a_spelling_is_its_own(text):
    assert unify(unify(text)) == unify(text)
