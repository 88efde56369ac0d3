"""What the README and the pages of docs/ show works: their links, their commands, what they say to install."""

import re
import shlex
import sys
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from string import Template

import engine_versions
import metric_reference
import pytest
import recipe_reference
from diver_command import diver

from diver.cli.main import COMMANDS, VERBS
from diver.core.extras import added
from diver.core.settings import read
from diver.integrations.versions import VERSIONS
from diver.recipe.load import load_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTENDING = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))
RUN_BY = {  # (page, language): the number of its snippets, and the file of the tests that run them as they stand
    ("README.md", "python"): (1, "tests/test_docs.py"),
    ("README.md", "text"): (1, "tests/test_docs.py"),
    ("README.md", "toml"): (1, "tests/test_docs.py"),
    ("docs/api.md", "python"): (1, "tests/test_docs.py"),
    ("docs/measure.md", "python"): (1, "tests/test_docs.py"),
    ("docs/measure.md", "toml"): (1, "tests/test_docs.py"),
    ("docs/testbeds.md", "toml"): (1, "tests/test_docs.py"),
    ("docs/trajectories.md", "python"): (3, "tests/test_trajectories_docs.py"),
    ("docs/extending.md", "python"): (7, "tests/test_extending.py"),
    ("docs/extending.md", "toml"): (1, "tests/test_extending.py"),
    ("docs/methods.md", "python"): (1, "tests/test_method_docs.py"),
    ("docs/engines/ms-swift.md", "python"): (1, "tests/integrations/engines/test_swift.py"),
    ("docs/engines/tinker-cookbook.md", "python"): (1, "tests/integrations/engines/test_pages.py"),
    ("docs/engines/trl.md", "python"): (8, "tests/integrations/trl/test_trl.py"),
    ("docs/engines/trl.md", "yaml"): (1, "tests/integrations/trl/test_trl.py"),
    **{(f"docs/recipes/{p.name}", "python"): (1, "tests/integrations/recipes/test_recipes.py") for p in RECIPES},
}
NOT_RUN = {  # printed output, and settings of trainers that no test installs: words by which the page says so
    ("docs/browse.md", ""): (1, "prints a table with one row per model"),
    ("docs/first-own-run.md", "text"): (3, "the output of two runs"),
    ("docs/measure.md", ""): (1, "It prints a table with one column per path"),
    ("docs/recipes/areal.md", "yaml"): (1, "AReaL was not run"),
    ("docs/recipes/roll.md", "yaml"): (1, "ROLL was not run"),
}
PROGRAMS = {  # first words of lines of a shell that no test runs, and what each needs
    "source": "a virtual environment",
    "zcat": "gzip and jq",
    "git": "the address of this repository",
    "vllm": "vLLM",
    "swift": "ms-swift, whose test runs it where it is installed",
    "axolotl": "Axolotl",
    "--custom-reward-post-process-path": "slime or miles",
    "--advantage-estimator": "slime or miles",
}


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
    pins, allowed = VERSIONS["environments"]["make test-vllm"]["versions"], VERSIONS["allowed"]
    trl, verl = f"{pins['trl']}.post9", f"{allowed['verl']}.post9"
    before, old = engine_versions.current(), f"\ntrl=={pins['trl']}\n"
    monkeypatch.setitem(pins, "trl", trl)
    monkeypatch.setitem(allowed, "verl", verl)
    changed = {path.name: text for path, text in engine_versions.current().items() if before[path] != text}
    assert {*changed} == {"versions.md", "requirements.txt", "pyproject.toml"}
    assert f"\ntrl=={trl}\n" in changed["requirements.txt"] and old not in changed["requirements.txt"]
    assert f'"verl{verl}"' in changed["pyproject.toml"] and f"| {verl} " in changed["versions.md"]


def snippets():
    """(page, language, text) of each fenced block; those of docs/results are records."""
    for page in PAGES:
        if page.parent.name != "results":
            for _, language, text in re.findall(
                r"^( *)```(\w*)\n(.*?)^\1```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
            ):
                yield str(page.relative_to(ROOT)), language, text


def test_every_snippet_is_run_by_a_test_or_its_page_says_that_it_was_not_run():
    found = Counter((page, language) for page, language, _ in snippets() if language != "sh")
    assert found == {key: count for key, (count, _) in (RUN_BY | NOT_RUN).items()}
    for (page, _), (_, file) in RUN_BY.items():
        tests = (ROOT / file).read_text(encoding="utf-8")
        assert Path(page).name in tests or "recipes/" in page, f"{file} does not read {page}"
    for (page, _), (_, words) in NOT_RUN.items():
        assert words in (ROOT / page).read_text(encoding="utf-8"), f"{page}: {words}"


def test_every_line_of_a_shell_is_checked_or_needs_a_program_that_is_named():
    """`diver` and `make` are checked below and above; pip's extras and folders and Python's modules exist."""
    extras = {
        folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for folder in (".", "./studies")
    }
    for page, language, text in snippets():
        for line in re.sub(r"\\\n\s*", "", text).splitlines() if language == "sh" else ():
            words = [w for w in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", w)]
            match words:
                case [] | ["diver" | "make" | "for", *_]:
                    pass
                case ["pip", "install", *names]:
                    for name in (n for n in names if n.startswith((".", "tests"))):
                        folder, _, wanted = name.rstrip("]").partition("[")
                        assert (ROOT / folder).is_dir() and {*wanted.split(",")} <= {"", *extras.get(folder, ())}, line
                case ["python", "-m", module, *_] if not module.startswith("verl."):
                    assert find_spec(module), f"{page}: {line}"
                case ["python", script, *_]:
                    assert script in ("-c", "-m") or (ROOT / script).is_file(), f"{page}: {line}"
                case [program, *_]:
                    assert program in PROGRAMS, f"{page}: {line}"


@pytest.mark.parametrize("page", ["measure.md", "testbeds.md"])
def test_the_recipe_of_a_page_loads(page, tmp_path):
    (text,) = (text for name, language, text in snippets() if (name, language) == (f"docs/{page}", "toml"))
    (tmp_path / "recipe.toml").write_text(text)
    recipe = load_recipe(tmp_path / "recipe.toml")
    given = tomllib.loads(text)
    assert recipe.method.name == given.get("method", {}).get("name", "diver-mix")
    assert recipe.data.path == given.get("data", {}).get("path", "countdown")


@pytest.mark.slow
def test_the_commands_of_the_quickstart_run(tmp_path, monkeypatch, capsys):
    """As they stand, but for runs of two steps; then the Python of measure.md, which reads such a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    sizes = {"sample.group_size": 4, "train.steps": 2, "train.batch_size": 4, "train.mini_batch_size": 4}
    sizes |= {"evaluate.problems": 4, "evaluate.num_samples": 4, "data.countdown.problems": 16}
    small = [str(word) for key, value in sizes.items() for word in (f"--{key}", value)]
    baseline = ["--method", "clip-higher", "--run.folder", "runs/quickstart-clip-higher"]
    shown = [words for page, words in shown_commands() if page.name == "quickstart.md"]
    for words in (["train", "recipes/quickstart.toml"], ["train", "recipes/quickstart.toml", *baseline], *shown):
        done = diver(*words, *(small if words[0] == "train" else ()))
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
    assert (tmp_path / "comparison.html").is_file()
    (code,) = (text for page, language, text in snippets() if (page, language) == ("docs/measure.md", "python"))
    names = {}
    exec(code, names)
    assert len(names["frame"]) == 16 and names["frame"]["step"].eq(2).all()
    assert capsys.readouterr().out.strip() == names["groups"].notes[0]


class Parsed(Exception):
    """The flags of a command are right; it is not carried out."""


def shown_commands():
    for page in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            lines = re.sub(r"\\\n\s*", "", block).splitlines()
            known = dict(
                match.groups() for line in lines if (match := re.match(r"(\w+)=(?:'|\")?(.*?)(?:'|\")?$", line))
            )
            for line in (re.sub(r"^for .*; do (.*); done$", r"\1", line) for line in lines):
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
    assert {"train", "eval", "measure", "browse", "judge", "reproduce"} <= seen <= {*VERBS, *added(COMMANDS)}


def test_the_first_screen_is_short():
    assert len(README.splitlines()) <= 90
    assert "arXiv preprint arXiv:2509.26209" in README
