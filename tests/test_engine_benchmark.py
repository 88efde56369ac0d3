"""The engine's benchmark, which nothing else imports: our half of it on a few problems."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    for name, value in (("OMP_NUM_THREADS", "1"), ("TOKENIZERS_PARALLELISM", "false"), ("HF_HUB_OFFLINE", "1")):
        monkeypatch.setenv(name, value)  # it sets them where they are not
    modules = [importlib.import_module(name) for name in ("engine_loads", "engine")]
    for module in modules:
        monkeypatch.setattr(module, "PROBLEMS", 4)
    return modules[1]


@pytest.mark.parametrize("without", [None, "products by oneDNN"])
def test_our_engine_takes_its_load(engine, without):
    seconds = engine.ours(engine.countdown_load(), without)
    assert seconds.sample > 0 and seconds.train > 0 and 10 < seconds.length <= 40
