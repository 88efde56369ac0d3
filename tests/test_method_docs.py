"""docs/method.md, verl.md and scale.md name code, keys and files that exist, and each method with its engines."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from diver.config.recipe import Recipe
from diver.integrations.engines import engines, rewarded
from diver.losses import LOSSES
from diver.methods import METHODS, method_named

ROOT = Path(__file__).parents[1]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("method.md", "verl.md", "scale.md")}
CODE = sorted({code for page in PAGES.values() for code in re.findall(r"`([^`\n]+)`", page)})
METHOD_ROW = re.compile(r"^\| `([a-z0-9-]+)` \| ([^|]+) \| `([a-z0-9-]+)`([^|]*) \| (built-in[^|]*) \|$", re.MULTILINE)
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


def test_every_method_has_its_row():
    rows = METHOD_ROW.findall(PAGES["method.md"])
    assert [row[0] for row in rows] == list(METHODS)
    for name, reward, loss, description, carried in rows:
        method = method_named(name)
        assert (loss, f"{carried}, diver.advantages") == (method.loss.name, ", ".join(engines(method))), name
        assert reward == rewarded(method).replace("C", "c", 1), name
        if clip := re.match(r" ([\d.]+) / ([\d.]+)", description):
            assert (float(clip[1]), float(clip[2])) == (method.loss.clip_low, method.loss.clip_high), name
        else:
            assert not hasattr(method.loss, "clip_low"), name


@pytest.mark.parametrize("code", [c for c in CODE if re.fullmatch(r"diver(\.\w+)+", c)])
def test_code_exists(code):
    module, _, name = code.rpartition(".")
    if not hasattr(importlib.import_module(module), name):
        importlib.import_module(code)


VERLS = {"verl.plugins", "data.apply_chat_template_kwargs.chat_template"}  # an entry point, and a key of verl


@pytest.mark.parametrize("key", [c for c in CODE if KEY.fullmatch(c) and c not in VERLS])
def test_recipe_keys_exist(key):
    assert key in recipe_keys()


def test_files_exist():
    for path in {c for c in CODE if re.fullmatch(r"(tests|src|recipes|benchmarks)/\S+", c)}:
        assert (ROOT / path).exists(), path
