"""What is distinguished by its value at one point, and what is left to math-verify."""

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from math_verify import verify

from diver.grading.equivalence import _apart, _predict_without_context, equivalent

X, Y = sp.symbols("x y")
N = sp.Symbol("n", integer=True)
LEAF = st.sampled_from([X, Y, sp.pi, *map(sp.Integer, range(-3, 4)), sp.Rational(1, 3)])
EXPRESSION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda ab: ab[0] + ab[1]),
        st.tuples(inner, inner).map(lambda ab: ab[0] * ab[1]),
        inner.map(lambda e: e**2),
        inner.map(sp.cos),
        inner.map(lambda e: sp.sqrt(e**2 + 1)),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((X + 1) ** 2, X**2 + 2 * X + 1),
        (sp.sin(X) ** 2 + sp.cos(X) ** 2, sp.Integer(1)),
        (sp.sqrt(X**2), X + 0 * Y + sp.Rational(1, 10**6)),
        (sp.log(X * Y), sp.log(X) + sp.log(Y)),
        (X, Y),  # a letter is compared by its name, and may be a product of letters
        (sp.Symbol("ab"), sp.Symbol("a") * sp.Symbol("b")),
        ((-1) ** (2 * N), sp.Integer(1)),
        (sp.cos(sp.pi * N), (-1) ** N),
        (9 * sp.UnevaluatedExpr(sp.Rational(1, 100)), sp.Integer(9)),
        (sp.Function("f")(X), sp.Function("g")(X)),
        (sp.Eq(X, 2 * X), sp.Eq(X, 3 * X)),  # both are solved by 0
        (sp.Integer(2) ** 2025, sp.Integer(3) ** 2025),
    ],
)
def test_left_to_math_verify(a, b):
    assert not _apart(a, b)
    assert not _apart(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (X**2, X**3),
        (2 * X, 2 * Y),
        (sp.exp(-2 * X), sp.exp(2 * X)),
        (sp.Integer(2), X + 1),
        (sp.sqrt(2), sp.Rational(3, 2)),
        (1 + sp.I, 1 - sp.I),
        (sp.Eq(Y, sp.exp(X)), sp.Eq(Y, sp.exp(2 * X))),
    ],
)
def test_apart(a, b):
    assert _apart(a, b)
    assert _apart(b, a)
    assert not verify(a, b)


@given(EXPRESSION, EXPRESSION)
@hypothesis_settings(max_examples=3 * hypothesis_settings().max_examples // 2)
def test_what_is_apart_is_wrong_by_math_verify_too(a, b):
    assert not _apart(a, sp.expand(a))
    if _apart(a, b):
        assert not verify(a, b, timeout_seconds=None)


LATEX = (
    r"\frac{1}{2}x|x \le 3|\{1,2\}|x=1,y=2|(-\infty,3]|[1,2] \cup [3,4)|12\%|\sin x + 1|\int x dx|2^{n}-1|f(x)=2x|"
    r"1 + * 2"
)


def test_what_is_read_without_context_has_the_tree_that_math_verify_gives_it(monkeypatch):
    """An integral is an error without the context, so it is read again; the last is an error in both."""
    from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy

    read = []

    def counted(converter, latex):
        read.append(latex)
        return create_parser(converter, latex)

    def tree(latex):
        parser = _Latex2Sympy().create_parser(latex)
        try:
            return parser.math().toStringTree(recog=parser)
        except Exception as error:
            return str(error)

    create_parser = _Latex2Sympy.create_parser
    monkeypatch.setattr(_Latex2Sympy, "create_parser", counted)
    expected = [tree(latex) for latex in LATEX.split("|")]
    assert len({*expected}) == 12 and "I expected" in expected[-1]
    _predict_without_context.__wrapped__()
    read.clear()
    assert [tree(latex) for latex in LATEX.split("|")] == expected
    assert [latex for latex in LATEX.split("|") if read.count(latex) == 2] == [r"\int x dx", "1 + * 2"]


def test_a_chain_of_equations_has_one_grade_however_often_it_is_compared():
    """SymPy changes the order of the links once they have been compared."""
    known = [r"\boxed{f(1)=f(2)=3}"]
    found = [[equivalent([rf"\boxed{{{text}}}"], known) for text in ("f(2)=f(1)=3", "f(2)=f(1)=4")] for _ in range(4)]
    assert found == [[True, False]] * 4
