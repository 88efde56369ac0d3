import pytest


@pytest.fixture(autouse=True)
def no_curves(monkeypatch):
    """To draw takes as long as to evaluate; the fixture `whole` of test_evaluation.py, made before this, has its
    figures."""
    monkeypatch.setattr("diver.evaluate.run.write_pass_curves", lambda curves, *paths: paths)
