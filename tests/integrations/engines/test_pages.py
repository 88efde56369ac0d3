"""The pages of docs/engines: their tables are those of the code, and their snippets run as they stand.

Where an engine is not installed, on objects with its documented fields; TRL's are run by tests/integrations/trl, and
ms-swift's and SkyRL's by the tests beside this one where these are installed.
"""

import asyncio
import pickle
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import contracts as c
import numpy as np
import pytest
import yaml
from test_contracts import expected

from diver.integrations import skyrl, slime
from diver.integrations.engines import ENGINES
from diver.integrations.seam import SEAMS
from diver.methods import method_named

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "engines").glob("*.md")}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)


@pytest.fixture
def engine(monkeypatch):
    """Makes a module of an engine that is not installed: its name, and what a page imports from it."""

    def install(name, **attributes):
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            path = ".".join(parts[:i])
            if path not in sys.modules:
                monkeypatch.setitem(sys.modules, path, ModuleType(path))
                if i > 1:
                    monkeypatch.setattr(sys.modules[".".join(parts[: i - 1])], parts[i - 1], sys.modules[path], False)
        vars(sys.modules[name]).update(attributes)

    return install


def test_every_engine_has_its_place_on_the_pages():
    """The table of what a seam carries is made with the site (`scripts/docs_tables.py`)."""
    marks = [name for page in PAGES.values() for name in re.findall(r"<!-- table: carried by (.*) -->", page)]
    assert sorted(marks) == sorted(SEAMS)
    for name in ENGINES:
        assert name in PAGES["README.md"], name


def test_links_lead_somewhere():
    for name, page in PAGES.items():
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page):
            assert (DOCS / "engines" / link).exists(), (name, link)
        for path in re.findall(r"`(tests/\S+?)`", page):
            assert (DOCS.parent / path).exists(), (name, path)


def test_slime(monkeypatch):
    _, text = blocks("slime.md", "sh")
    words = shlex.split(text)
    options = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            value = words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else True
            options[word[2:].replace("-", "_")] = value
    module, _, function = options.pop("custom_reward_post_process_path").rpartition(".")
    assert module == slime.__name__
    clips = {name: float(options[name]) for name in ("eps_clip", "eps_clip_high")}
    defaults = {"calculate_per_token_loss": False, "eps_clip_high": None}  # of slime
    args = c.slime_args(**{**defaults, **options, **clips})
    monkeypatch.setenv("DIVER_METHOD", "diver-mix")
    slime._configured.cache_clear()
    assert getattr(slime, function)(args, c.slime_samples())[1] == expected("diver-mix")
    slime._configured.cache_clear()


def test_skyrl():
    _, text = blocks("skyrl.md", "sh")
    environment, *words = shlex.split(text.replace("\\\n", " "))
    assert environment == "DIVER_METHOD=diver-mix" and words[:3] == ["python", "-m", "diver.integrations.skyrl_main"]
    given = dict(word.removeprefix("trainer.algorithm.").split("=") for word in words[3:])
    values = {name: yaml.safe_load(value) for name, value in given.items()}
    defaults = {"advantage_estimator": "grpo", "use_kl_loss": True, "eps_clip_high": 0.2}  # of SkyRL
    skyrl.check_config(method_named("diver-mix"), c.skyrl_config(**{**defaults, **values}))


def test_tinker_cookbook(engine, monkeypatch):
    @dataclass(frozen=True)
    class ProblemGroupBuilder:
        env_thunk: object
        num_envs: int
        dataset_name: str = "problems"

    engine("tinker_cookbook.rl.problem_env", ProblemGroupBuilder=ProblemGroupBuilder)
    engine("tinker_cookbook.tokenizer_utils", get_tokenizer=lambda name: c.Tokenizer())
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    exec(*blocks("tinker-cookbook.md", "python"), vars(page))
    builder = pickle.loads(pickle.dumps(page.DiverGroupBuilder(None, 4)))
    given = asyncio.run(builder.compute_group_rewards(c.tinker_trajectories(), []))
    totals = np.array([reward for reward, _ in given]) + c.OUTCOMES
    np.testing.assert_allclose(totals - totals.mean(), expected("diver-mix", 1), atol=1e-12)
