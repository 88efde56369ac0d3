"""What the README and the pages of docs/ show works: their links, their commands, what they say to install."""

import re
import shlex
import sys
from pathlib import Path
from string import Template

import engine_versions
import metric_reference
import pytest
import recipe_reference
from diver_command import diver

from diver.cli.main import other_commands, own_commands
from diver.core.settings import read
from diver.integrations.versions import VERSIONS
from diver.recipe.load import load_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_recipe_of_the_readme_loads_and_has_ten_lines(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "mine.toml").write_text(text)
    recipe = load_recipe(tmp_path / "mine.toml")
    assert recipe.data.path == "problems.jsonl" and recipe.train.batch_size == 128
    assert len(text.splitlines()) <= 10


def test_the_python_of_the_readme_prints_what_the_readme_shows(capsys):
    (code,), (shown,) = blocks("python"), blocks("text")
    exec(code, {})
    assert capsys.readouterr().out == shown
    assert len(code.splitlines()) <= 8


def test_the_python_of_the_page_on_answer_ends_runs():
    """The first answer ends with its box, before "I checked it."; two of three responses are correct."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "api.md").read_text(), re.DOTALL | re.MULTILINE)
    names = {}
    exec(code, names)
    assert names["outcomes"] == [1, 1, 0]
    first = names["responses"][0]
    assert first[: names["ends"][0]].rstrip(".") == first.partition(". I")[0]
    assert names["advantages"][0] > 0 > names["advantages"][2]


def prose(text):
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page):
    """The anchors of its headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_anchors_and_make_targets_exist(page):
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", prose(text)):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
        assert f"\n{target}:" in makefile, target
    for path in (
        []
        if page.parent.name == "engines" or page.name == "history.md"  # files of others, and files that are gone
        else re.findall(r"\b(?:recipes|scripts|benchmarks|examples)/[\w./-]+\.\w+", text)
    ):
        assert (ROOT / path).exists() or path.startswith("benchmarks/results/"), path
    assert not re.search(r"pip install [^`\n]*diver-rl", text), "a package of this name is not published"


def test_every_page_is_in_the_navigation_of_the_site():
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert re.search(rf"[ \[]{page.name}[],\n]", listed), page.name


def test_the_page_of_recipe_keys_is_that_of_the_classes():
    assert recipe_reference.PAGE.read_text(encoding="utf-8") == recipe_reference.page(), recipe_reference.__doc__


def test_the_page_of_metrics_is_that_of_their_meanings():
    assert metric_reference.PAGE.read_text(encoding="utf-8") == metric_reference.page(), metric_reference.__doc__


def test_the_page_and_the_pins_are_those_of_the_file_of_versions():
    for path, text in engine_versions.current().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: {engine_versions.__doc__}"


def test_every_pin_of_the_file_of_versions_stands_in_a_requirement_file():
    for target, environment in VERSIONS["environments"].items():
        lines = [line for path in environment["files"] for line in (ROOT / path).read_text().splitlines()]
        for package, version in environment["versions"].items():
            assert f"{package}=={version}" in lines, f"{target}: {package}"
        assert f"\n{target.removeprefix('make ')}:" in (ROOT / "Makefile").read_text(), target


def test_another_release_is_a_change_of_the_file_of_versions_alone(monkeypatch):
    monkeypatch.setitem(VERSIONS["environments"]["make test-vllm"]["versions"], "trl", "1.17.0")
    monkeypatch.setitem(VERSIONS["allowed"], "verl", "==0.9.2")
    changed = {path.name: text for path, text in engine_versions.current().items() if path.read_text() != text}
    assert {*changed} == {"versions.md", "requirements.txt", "pyproject.toml"}
    assert "\ntrl==1.17.0\n" in changed["requirements.txt"] and "1.16.0" not in changed["requirements.txt"]
    assert '"verl==0.9.2"' in changed["pyproject.toml"] and "| ==0.9.2 " in changed["versions.md"]


class Parsed(Exception):
    """The flags of a command are right; it is not carried out."""


def shown_commands():
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = re.sub(r"\\\n\s*", "", block).splitlines()
            known = dict(
                match.groups() for line in lines if (match := re.match(r"(\w+)=(?:'|\")?(.*?)(?:'|\")?$", line))
            )
            for line in lines:
                plain = re.sub(r"\$\(.*\)", "output", Template(line).safe_substitute(known))
                words = shlex.split(re.split(r" (?:2?>|\||&)", plain)[0], comments=True)
                if words[:1] == ["diver"] and "..." not in words:
                    yield page, words[1:]


@pytest.mark.slow
def test_every_command_that_a_page_shows_has_flags_that_exist(tmp_path, monkeypatch):
    """By the real parsers: the flags and their values are read, and nothing is carried out."""
    (text,) = blocks("toml")
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "tiny.toml").write_text("")
    for name in ("recipes", "docs", "studies"):
        (tmp_path / name).symlink_to(ROOT / name)
    for file in re.findall(r"^\*\*`(my_\w+\.py)`\*\*\n\n```python\n(.*?)^```$", EXTENDING, re.MULTILINE | re.DOTALL):
        (tmp_path / file[0]).write_text(file[1])
    (tmp_path / "my_module.py").write_text("def my_function(response, problem):\n    return True\n")

    def read_only(*args):
        read(*args)
        raise Parsed

    for module in ("flags", "load"):  # the last step of both
        monkeypatch.setattr(f"diver.recipe.{module}.read", read_only)
    seen, wrong = set(), []
    for page, words in shown_commands():
        seen.add(words[0])
        try:
            done = diver(*words, cwd=tmp_path)
        except Parsed:
            continue
        if "--help" not in words and "--version" not in words:
            wrong.append((page.name, shlex.join(words), done.stderr))
    for module in tmp_path.glob("my_*.py"):  # another test has files of these names
        sys.modules.pop(module.stem, None)
    assert not wrong
    assert {"train", "eval", "measure", "browse", "judge", "reproduce"} <= seen <= {*own_commands(), *other_commands()}


def test_the_first_screen_is_short():
    assert len(README.splitlines()) <= 90
    assert "arXiv preprint arXiv:2509.26209" in README
