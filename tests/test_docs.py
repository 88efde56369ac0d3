"""What the README shows works."""

import re
from pathlib import Path

import numpy as np

from diver.config.load import load_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_recipe_of_the_readme_loads_and_has_ten_lines(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "mine.toml").write_text(text)
    recipe = load_recipe(tmp_path / "mine.toml")
    assert recipe.data.path == "problems.jsonl" and recipe.train.batch_size == 128
    assert len(text.splitlines()) <= 10


def test_the_drop_in_of_the_readme_runs():
    code, _ = blocks("python")  # the other is run by tests/integrations/trl
    given = {
        "responses": ["so $1+1=2$", "we add: $2=1+1$", "three", "so $1+1=2$ it is"],
        "outcomes": [1.0, 1.0, 0.0, 1.0],
        "group_ids": ["a"] * 4,
        "step": 5,
        "total_steps": 100,
    }
    exec(code, given)
    advantages = given["advantages"]
    assert advantages.dtype == np.float64 and advantages[2] < 0 < advantages[1] and abs(advantages.sum()) < 1e-9
    assert len(code.splitlines()) <= 10


def test_links_and_make_targets_exist():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z-]+)", README)):
        if target not in ("language",):  # "makes language models reason"
            assert f"\n{target}:" in makefile, target
    for recipe in re.findall(r"recipes/\S+\.toml", README):
        assert (ROOT / recipe).exists(), recipe


def test_the_first_screen_is_short():
    assert len(README.splitlines()) <= 150
    assert "arXiv preprint arXiv:2509.26209" in README
