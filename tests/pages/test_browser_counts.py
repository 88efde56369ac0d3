"""How many responses of a group are correct, as the script of the page counts and says it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import diver.pages

ASSETS = Path(diver.pages.__file__).parent / "assets"
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="no node")
@pytest.mark.parametrize(
    ("grades", "words", "kind"),
    [
        ([None] * 4, "", []),
        (["timeout", "error"], "", []),
        (["correct", "wrong", "no_answer", "truncated"], "1 of 4 correct", ["mixed"]),
        (["wrong", "wrong"], "0 of 2 correct", ["none"]),
        (["correct", "correct", "correct", "wrong", "wrong", "wrong", None, None], "3 of 6 graded correct", ["mixed"]),
        (["correct", None, "timeout"], "1 of 1 graded correct", ["all"]),
        (["wrong", None], "0 of 1 graded correct", ["none"]),
    ],
)
def test_only_responses_that_are_graded_are_counted(grades, words, kind):
    script = (ASSETS / "browser.js").read_text(encoding="utf-8")
    group = json.dumps({"responses": [{"grade": grade} for grade in grades]})
    script += f"const g = {group}; console.log(JSON.stringify([counted(g), kinds(g).slice({len(grades)})]));"
    done = subprocess.run([NODE, "-"], input=script, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [words, kind]


@pytest.mark.skipif(NODE is None, reason="no node")
def test_a_group_without_grades_has_no_count_on_the_page():
    """The text of its line in the list and above its responses, with elements that are their texts."""
    stats = {"diversity": {"textual": 0.25}}
    responses = [
        {
            "grade": None,
            "index": 1,
            "text": ["a"],
            "length": None,
            "reward": {},
            "diversity": {},
            "advantage": None,
            "entropy": None,
        }
    ]
    group = {
        "run": 0,
        "step": None,
        "problem": "p",
        "prompt": ["Q"],
        "answer": "7",
        "size": 1,
        "stats": stats,
        "matrix": [[0]],
    }
    script = """
        const html = (tag, attributes, ...children) => (
            { children, replaceChildren() {}, querySelectorAll: () => [], toString: () => children.join("") }
        );
        const sourceOf = (parts) => parts.join(""), textBlock = sourceOf, figure = String, signed = String;
    """ + (ASSETS / "browser.js").read_text(encoding="utf-8")
    for about, line, note in [
        ({}, "TD 0.25", "reference answer 7"),
        ({"size": 9}, "TD 0.25", "1 of 9 responses shown · reference answer 7"),
        ({"grade": "wrong"}, "0 of 1 correct · TD 0.25", "0 of 1 correct · reference answer 7"),
    ]:
        grade = about.pop("grade", None)
        shown = json.dumps({**group, **about, "responses": [{**responses[0], "grade": grade}]})
        said = f"""
            const group = {shown};
            console.log(JSON.stringify([String(listItem(group, 0, ["r"]).children[0].children[2]),
              String(groupDetail(group, {{ groups: [group], names: ["r"], state: {{ ...START }} }})[0].children[1])]));
        """
        done = subprocess.run([NODE, "-"], input=script + said, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == [line, note]
