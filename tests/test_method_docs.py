"""The pages on methods and engines name code, keys and files that exist; docs/methods.md has the table of the code."""

import dataclasses
import importlib
import re
from pathlib import Path

import measured_gains
import pytest
from by_hand import KNOWN
from docs_tables import MARK, on_page_markdown, tables

from diver.cli.methods import docs
from diver.integrations.engines import WIDEST, catalogue, change, parts
from diver.losses import LOSSES
from diver.methods import METHODS, method_named
from diver.recipe.recipe import Recipe

ROOT = Path(__file__).parents[1]
NAMES = ("diver.md", "methods.md", "verl.md", "scale.md")
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in NAMES}
CODE = sorted({code for page in PAGES.values() for code in re.findall(r"`([^`\n]+)`", page)})
KEY = re.compile(rf"({'|'.join(f.name for f in dataclasses.fields(Recipe))})(\.[a-z_<>]+)+")


def keys(settings, prefix):
    found = {prefix}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        found |= (
            keys(value, f"{prefix}.{field.name}") if dataclasses.is_dataclass(value) else {f"{prefix}.{field.name}"}
        )
    return found


def recipe_keys():
    named = [method_named(name) for name in METHODS]
    found = {f"method.diversity_rewards.<metric>.{key}" for key in ("weight", "clip_max")} | {"data.verifier"}
    for field in dataclasses.fields(Recipe):
        found |= keys(field.default, field.name)
    return found.union(*(keys(m, "method") for m in named), *(keys(c(), "method.loss") for c in LOSSES.values()))


def test_the_tables_of_the_site_have_every_method():
    """Each page with a mark: what `diver methods` prints, the keys of methods, and the methods of engines."""
    marks = {page: MARK.findall(page.read_text(encoding="utf-8")) for page in sorted((ROOT / "docs").rglob("*.md"))}
    assert sorted(name for names in marks.values() for name in names) == sorted(tables())
    for page, names in marks.items():
        text = page.read_text(encoding="utf-8")
        shown = on_page_markdown(text)
        assert (shown == text) == (not names) and not MARK.search(shown)
        if "diver methods" in names:
            assert catalogue() in shown
        elif any(name.startswith("carried by") for name in names):
            cells = {
                word for line in shown.splitlines() if line.startswith("| ") for word in re.findall(r"[\w-]+", line)
            }
            assert {*METHODS} <= cells, page
        elif names:
            assert "| `method.k` | integer, `4`; `pass-at-k` | The size of a set." in shown


def test_the_snippet_of_the_page_runs():
    """MaxRL of three correct of four, by hand: p = 3/4, (1 - p) / p = 1/3 and (0 - p) / p = -1."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGES["methods.md"], re.DOTALL | re.MULTILINE)
    given = {"responses": list("abcd"), "outcomes": [1, 1, 0, 1], "group_ids": [7] * 4, "step": 5, "total_steps": 100}
    exec(code, given)
    assert given["advantages"].tolist() == pytest.approx([1 / 3, 1 / 3, -1, 1 / 3])
    assert given["pairs"].k == 2 and given["weaker"].shaping.coef == 0.05
    clips = [(method.loss.clip_low, method.loss.clip_high) for method in (given["method"], method_named("max-rl"))]
    assert clips == [(0.20, 0.28), (0.20, 0.20)]


def test_the_readme_counts_the_methods():
    """In tens, so that a new method needs no other number."""
    for page in ("README.md", "docs/index.md"):
        words = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        (least,) = re.findall(r"more than (\d+) exploration methods", words)
        assert len(KNOWN) // 10 * 10 == int(least) < len(METHODS)


@pytest.mark.parametrize("name", sorted({*KNOWN, *LOSSES}))
def test_methods_and_losses_have_their_paragraph(name):
    paragraphs = [line for line in PAGES["methods.md"].splitlines() if line.startswith("**`")]
    assert any(f"`{name}`" in line.split("**")[1] for line in paragraphs)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_it_changes_by_which_formula_and_of_which_source(name):
    method = method_named(name)
    text = " ".join(docs(method))
    assert 0 < len(change(method)) <= WIDEST and not change(method).endswith("...")
    assert len(text) > len(change(method)) + 100
    assert re.search(r"\barXiv \d{4}\.\d{5}\b|\bOurs\b|\bours\b|remax-rl", text), text


def test_no_two_methods_say_the_same():
    said = [change(method_named(name)) for name in METHODS]
    assert len({*said}) == len(said)


def test_the_part_of_a_step_that_a_method_changes():
    """One method of each part, and methods of two."""
    known = {"grpo": "none", "clip-higher": "loss", "gspo": "loss", "diver-mix": "reward", "max-rl": "advantage"}
    known |= {"verified-replay": "data", "dapo": "reward, sampling", "siren": "advantage, loss"}
    assert {name: parts(method_named(name)) for name in known} == known


def test_the_measured_gains_are_those_of_the_records():
    assert measured_gains.FILE.read_text(encoding="utf-8") == measured_gains.text()
    assert max(map(len, catalogue().splitlines())) <= 120
    (row,) = [line for line in catalogue().splitlines() if line.startswith("| pass-at-k ")]
    assert re.search(r"\| +-2\.9\* \| +\+10\.3\* \|", row)  # as in the first table of docs/results/method-comparison.md


def test_an_engine_filters_the_methods():
    """DiverTrainer, which `diver train --engine trl` uses, runs all; verl does not sample the starting policy."""
    assert catalogue("trl") == catalogue("builtin") == catalogue()
    assert "| dph-rl " in catalogue("trl") and "| dph-rl " not in catalogue("verl")
    assert "verified-replay" not in catalogue("slime")
    assert "| grpo " in catalogue("ms-swift") and catalogue("builtin") == catalogue("built-in")


@pytest.mark.parametrize("code", [c for c in CODE if re.fullmatch(r"diver(\.\w+)+", c)])
def test_code_exists(code):
    module, _, name = code.rpartition(".")
    if not hasattr(importlib.import_module(module), name):
        importlib.import_module(code)


VERLS = {"verl.plugins", "data.apply_chat_template_kwargs.chat_template", "data.max_response_length"}
"""An entry point, and keys of verl."""


@pytest.mark.parametrize("key", [c for c in CODE if KEY.fullmatch(c) and c not in VERLS])
def test_recipe_keys_exist(key):
    assert key in recipe_keys()


def test_files_exist():
    for path in {c for c in CODE if re.fullmatch(r"(tests|src|recipes|benchmarks)/\S+", c)}:
        assert (ROOT / path).exists(), path
