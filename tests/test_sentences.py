"""scripts/prose.py on sentences that it lists, and on text that is no sentence."""

from collections import Counter

import pytest
from prose import PARTS, draw, faults, sentences

WORDS = " ".join(["word"] * 20)


@pytest.mark.parametrize(
    "text",
    [
        f"[One](a.md) · [{WORDS}](b.md) ·\n[{WORDS}](c.md)",
        f"| {WORDS} | {WORDS} |\n",
        f"a      {WORDS}\n       {WORDS}\nb      {WORDS}\n",
        f"    f()    # {WORDS}\n    g()    # {WORDS}\n",
        f"```\n{WORDS} {WORDS}\n```",
    ],
    ids=["links in a row", "table", "columns", "code", "fenced code"],
)
def test_tables_code_and_rows_of_links_are_no_sentences(text):
    assert list(sentences(text)) == []


@pytest.mark.parametrize(
    "text, expected",
    [
        ("A mean (median). lambda is 0.1.", ["A mean (median).", "lambda is 0.1."]),
        ("It takes a part, i.e. a micro-batch.", ["It takes a part, i.e. a micro-batch."]),
        ("One list:\n\n- first\n- second", ["One list:", "first", "second"]),
        ("Args:\n    steps: files.\n    size (int): bytes.", ["Args:", "files.", "bytes."]),
        ("A [link](page.md) and `code of words`.", ["A link and `code`."]),
    ],
)
def test_sentences(text, expected):
    assert list(sentences(text)) == expected


def test_what_is_wrong_with_a_sentence(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"{WORDS} {WORDS}.\n\nOf two, one.\n\nFrom 1 [0.5, 2] to 3 [2, 4].\n\nOne [0.5, 2].\n")
    assert [fault for fault, _ in faults(page)] == ["40 words", 'begins with "Of"', "more than one interval"]
    module = tmp_path / "module.py"
    module.write_text(
        f'"""{WORDS} {WORDS}."""\n\nx = "{WORDS} {WORDS}"  # of two\n# {WORDS}\n# {WORDS}\n'
        f'raise ValueError(f"{WORDS} {{x}}: {WORDS}")\n'
    )
    assert [fault for fault, _ in faults(module)] == ["40 words", 'begins with "Of"', "40 words", "41 words"]


def test_a_drawing_is_of_all_kinds():
    assert Counter(line.split(": ")[1] for line in draw(1)) == dict.fromkeys(PARTS, 5)
