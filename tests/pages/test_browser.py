"""What the group browser shows: formulas as harmless MathML, unique ones marked, everything bounded."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_page import packed, write_groups, written

from diver.core.types import Grade, Group, Problem, Reward, Rollout
from diver.diversity import formulas, textual_dissimilarity
from diver.pages.groups import BYTES, RESPONSES, Shown, browser_data, evenly_spaced, pack, segments
from diver.pages.mathematics import ATTRIBUTES, ELEMENTS, Formulas, mathml


def group_of(*responses, name="p"):
    return Group(Problem(name, "Use 3 and 5", "8"), tuple(Rollout(r) for r in responses))


def walk(tree):
    yield tree
    for child in tree[2:]:
        if isinstance(child, list):
            yield from walk(child)


def leaves(tree):
    return "".join(c if isinstance(c, str) else leaves(c) for c in tree[2:])


# --- mathematics


def test_mathml_by_hand():
    row = ["mrow", {}, ["mn", {}, "3"], ["mo", {}, "×"], ["mi", {}, "x"]]
    assert mathml(r"3 \times x") == ["math", {"display": "inline"}, row]
    assert mathml(r"3 \times x", display=True) == ["math", {"display": "block"}, row]


@pytest.mark.parametrize(
    "latex",
    [
        r"\href{javascript:alert(1)}{x}",
        r"\style{position:fixed;inset:0}{x}",
        r"\class{chosen}{x}",
        r"\text{<script>alert(1)</script>}",
        r"\text{<img src=x onerror=alert(1)>}",
        r"\color{red}{x}\rule{9999em}{9999em}",
    ],
)
def test_only_known_elements_and_attributes_and_text_as_text(latex):
    tree = mathml(latex)
    for name, attributes, *_ in walk(tree):
        assert name in ELEMENTS and set(attributes) <= ATTRIBUTES
        assert {"href", "style", "class", "width", "mathcolor"}.isdisjoint(attributes)
    if "<" in latex:
        assert leaves(tree).replace("\xa0", " ") == latex[6:-1]


@pytest.mark.parametrize(
    "latex",
    [
        "",
        r"\frac{1}",
        r"\frac",
        "}{",
        r"\left(",
        r"\begin{matrix} 1 & 2",
        "^",
        r"x^^2",
        "{" * 25 + "}" * 25,
        "x" * 1001,
        r"\newcommand{\a}{\a\a}\a",
        r"\def\a{\a\a}\a",
        r"\unicode{ffffffff}",
        "\\" * 7,
    ],
)
def test_broken_latex_is_left_as_it_was_written_or_drawn_without_harm(latex):
    tree = mathml(latex)
    assert tree is None or json.dumps(tree)
    (part,) = (
        segments(f"\\({latex}\\)", frozenset(), Formulas(), 10_000) if len(latex) > 1 and "\\\\" not in latex else [[]]
    )
    assert not part or written([part]) == f"\\({latex}\\)"


def test_macros_are_not_expanded_but_left_is_no_macro():
    assert mathml(r"\let\a=\b \a") is None
    assert mathml(r"\left( x \right)") is not None


@settings(max_examples=3 * settings().max_examples // 2)
@given(
    st.lists(
        st.sampled_from(
            r"\frac { } x 1 ^ _ & \\ \left( \right) \sqrt [ ] \text{ \begin{matrix} \end{matrix} < \href{ $".split()
        ),
        max_size=25,
    )
)
def test_whatever_is_written_as_latex_the_tree_is_harmless(pieces):
    tree = mathml(" ".join(pieces))
    for name, attributes, *children in walk(tree) if tree else ():
        assert name in ELEMENTS and set(attributes) <= ATTRIBUTES
        assert all(isinstance(child, str | list) for child in children)


def test_equal_formulas_are_converted_once_and_only_so_many():
    converted = Formulas(limit=2)
    assert [converted(f, False) for f in ("x", " x ", "y", "z", "x")] == [0, 0, 1, None, 0]
    assert len(converted.trees) == 2 and converted.unconverted == 1


# --- segments


def test_segments_by_hand():
    text = r"so \( 3 + 5 = 8 \) and $x$$y$: \[ z \] gives \boxed{ 8 }."
    parts = segments(text, frozenset({"3 + 5 = 8", "z"}), Formulas(), 1000)
    assert [p if isinstance(p, str) else (p[0], p[2]) for p in parts] == [
        "so ",
        (r"\( 3 + 5 = 8 \)", 1),
        " and ",
        ("$x$", 0),
        ("$y$", 0),
        ": ",
        (r"\[ z \]", 1),
        " gives ",
        (r"\boxed{ 8 }", 0),
        ".",
    ]


@given(st.text(st.sampled_from("ab $\\()[]{}\n1"), max_size=60))
def test_segments_keep_every_character(text):
    assert written(segments(text, frozenset(), Formulas(), 1000)) == text


def test_a_long_text_keeps_its_beginning_and_its_end():
    assert segments("a" * 70 + "b" * 40 + "c" * 30, frozenset(), Formulas(), 100) == ["a" * 70, {"cut": 40}, "c" * 30]
    assert segments("a" * 100, frozenset(), Formulas(), 100) == ["a" * 100]


HOSTILE = r"""
import sys
from diver.pages.groups import Shown, browser_data, segments
from diver.pages.mathematics import Formulas
from diver.core.tables import clean
from diver.core.types import Group, Problem, Rollout
for hostile in ("x", "$", r"\boxed{", r"\(", "{", r"\boxed{{}"):
    hostile *= int(sys.argv[1]) // len(hostile)
    segments(clean(hostile), frozenset(), Formulas(), len(hostile))
    browser_data([Shown(Group(Problem("p", "?", ""), (Rollout(hostile[: 10**5]), Rollout("y"))))])
"""


@pytest.mark.parametrize("size", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_hostile_text_is_read_in_one_pass(size):
    """In a few seconds; a pattern that is quadratic in any of them would take many minutes, and is ended here."""
    subprocess.run([sys.executable, "-c", HOSTILE, str(size)], check=True, timeout=240)


# --- groups


def test_what_is_unique_is_unique_in_the_whole_group_as_in_ed():
    responses = [r"\( a \) \( b \)", r"\( b \) \( c \)", r"$a$ $d$"]
    (group,) = browser_data([Shown(group_of(*responses))])["groups"]
    marked = [
        {p[0][2:-2].strip() or p[0] for p in r["text"] if isinstance(p, list) and p[2]} for r in group["responses"]
    ]
    assert [len(m) for m in marked] == [0, 1, 1]
    for i, response in enumerate(responses):
        others = set().union(*(formulas(r) for j, r in enumerate(responses) if j != i))
        assert len(formulas(response) - others) == len(marked[i])


def test_the_matrix_is_that_of_textual_diversity():
    responses = ["a b c d e", "a b c d f", "x y z"]
    (group,) = browser_data([Shown(group_of(*responses))])["groups"]
    np.testing.assert_array_equal(group["matrix"], np.rint(100 * textual_dissimilarity(responses)))
    (by_character,) = browser_data([Shown(group_of("ab", "a b", "xy"), tokenize="char")])["groups"]
    assert by_character["matrix"] == [[0, 0, 100], [0, 0, 100], [100, 100, 0]]
    (alone,) = browser_data([Shown(group_of("a b"))])["groups"]
    assert alone["matrix"] == [[0]]


def test_figures_of_a_response():
    rollout = Rollout("x", num_tokens=3, grade=Grade.CORRECT, reward=Reward(1.0, 0.05), diversity={"textual": 1 / 3})
    bare = Rollout("y")
    (group,) = browser_data([Shown(Group(Problem("p", "?", ""), (rollout, bare)), step=4)])["groups"]
    first, second = group["responses"]
    assert first["reward"] == {"outcome": 1.0, "diversity": 0.05, "length": 0.0, "total": 1.05}
    assert (first["grade"], first["diversity"], first["advantage"], first["length"]) == (
        "correct",
        {"textual": 0.33333},
        None,
        3,
    )
    assert (second["grade"], second["reward"], second["length"], group["step"]) == (None, {}, None, 4)


def test_a_large_group_shows_some_of_its_responses():
    responses = [f"response {i} says {i % 7}" for i in range(1024)]
    (group,) = browser_data([Shown(group_of(*responses))])["groups"]
    assert group["size"] == 1024 and len(group["responses"]) == len(group["matrix"]) == RESPONSES
    assert (group["responses"][0]["index"], group["responses"][-1]["index"]) == (1, 1024)


def test_long_texts_are_cut_so_that_the_page_stays_small(tmp_path, monkeypatch):
    """A tenth of the 200 groups in a tenth of the room."""
    monkeypatch.setattr("diver.pages.groups.BYTES", BYTES // 10)
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(5000)])
    groups = [group_of(*(" ".join(rng.choice(words, 700)) for _ in range(8)), name=str(i)) for i in range(20)]
    path = write_groups(tmp_path / "page.html", groups)
    data = packed(path.read_text())["browser"]
    assert len(pack(data)) <= BYTES // 10 and path.stat().st_size < 350_000
    assert 800 <= data["max_chars"] < len(groups[0].responses[0])
    assert all(any(isinstance(p, dict) for p in g["responses"][0]["text"]) for g in data["groups"])


@pytest.mark.slow
def test_a_page_of_100_groups_of_64_has_at_most_2_megabytes(tmp_path):
    """Words of random letters hardly compress, and no two of these long responses are alike."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(5000)])
    rollouts = [Rollout(" ".join(rng.choice(words, 300)), reward=Reward(*rng.random(2))) for _ in range(6400)]
    groups = [Group(Problem(str(i), "?", "1"), tuple(rollouts[64 * i : 64 * i + 64])) for i in range(100)]
    assert 1_000_000 < write_groups(tmp_path / "page.html", groups).stat().st_size <= 2_000_000


@pytest.mark.parametrize(
    ("total", "count", "expected"),
    [(5, 3, [0, 2, 4]), (3, 5, [0, 1, 2]), (1, 1, [0]), (9, 1, [0]), (9, 0, []), (0, 3, []), (100, 2, [0, 99])],
)
def test_even_spacing(total, count, expected):
    assert evenly_spaced(total, count) == expected


def test_a_page_for_groups_of_any_origin(tmp_path):
    groups = [group_of("a b c", "a b <i>d</i>", name=f"<b>{i}</b>") for i in range(5)]
    path = write_groups(tmp_path / "browse.html", groups, "<script>alert(1)</script>", steps="<x>", groups=3)
    html = path.read_text()
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html and "<dd>&lt;x&gt;</dd>" in html
    assert "3 groups, evenly spaced" in html and not re.search(r'id="curves"', html)
    assert [g["problem"] for g in packed(html)["browser"]["groups"]] == ["<b>0</b>", "<b>2</b>", "<b>4</b>"]
    assert "could not be converted" not in html
    broken = write_groups(path, [group_of(r"\( \frac{1} \)", "b")]).read_text()
    assert "All groups." in broken and "Formulas that could not be converted are shown as LaTeX (1)." in broken
