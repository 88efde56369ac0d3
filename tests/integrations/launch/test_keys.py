"""No key of a recipe is forgotten on its way to another trainer."""

import dataclasses

import pytest

from diver.core.types import DiverError
from diver.integrations.keys import mapped, read_keys, table
from diver.recipe.recipe import Recipe, make_recipe


def keys_of(value, prefix=""):
    for field in dataclasses.fields(value):
        below = getattr(value, field.name)
        if dataclasses.is_dataclass(below):
            yield from keys_of(below, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


@pytest.mark.parametrize("engine", ["verl", "trl"])
def test_every_key_of_a_recipe_has_exactly_one_fate(engine):
    recipe_keys, keys = list(keys_of(Recipe())), read_keys(engine)
    for key in recipe_keys:
        fates = [name for name in keys if name == key or (name.endswith(".") and key.startswith(name))]
        assert len(fates) == 1, f"{key}: {fates or f'is missing in integrations/{engine}/keys.toml'}"
    for name, fate in keys.items():
        assert any(key == name or (name.endswith(".") and key.startswith(name)) for key in recipe_keys), name
        assert fate.to or fate.note, f"{name}: neither an option of the engine's nor a reason"
        assert not name.endswith(".") or not fate.to
        assert name in table(engine) or f"{name}*" in table(engine)
        first_words = [line.split()[0].rstrip("*") for line in table(engine, elsewhere=True).splitlines()]
        assert (name in first_words) == (not fate.to)


@pytest.mark.parametrize(
    ("engine", "key", "value", "told"),
    [
        ("verl", "revision", "abc", "model.revision = 'abc' cannot be run with verl: .* download the revision"),
        ("verl", "device", "cpu", "model.device = 'cpu' cannot be run with verl"),
        ("verl", "precision", "float32", "model.precision = 'float32' cannot be run with verl"),
        ("trl", "device", "cuda:1", "model.device = 'cuda:1' cannot be run with trl: use_cpu; accelerate places"),
    ],
)
def test_what_an_engine_cannot_run_is_refused(engine, key, value, told):
    with pytest.raises(DiverError, match=told):
        dict(mapped(make_recipe({"model": {key: value}}), engine))


@pytest.mark.parametrize("engine", ["verl", "trl"])
def test_no_two_keys_set_the_same_option(engine):
    options = [option for option, _ in mapped(Recipe(), engine)]
    assert len(options) == len(set(options))
