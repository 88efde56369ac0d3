"""No key of a recipe is forgotten on its way to verl."""

import dataclasses

import pytest

from diver.config.recipe import Recipe, make_recipe
from diver.integrations.keys import mapped, read_keys, table
from diver.types import DiverError


def keys_of(value, prefix=""):
    for field in dataclasses.fields(value):
        below = getattr(value, field.name)
        if dataclasses.is_dataclass(below):
            yield from keys_of(below, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def test_every_key_of_a_recipe_has_exactly_one_fate():
    recipe_keys, keys = list(keys_of(Recipe())), read_keys("verl")
    for key in recipe_keys:
        fates = [name for name in keys if name == key or (name.endswith(".") and key.startswith(name))]
        assert len(fates) == 1, f"{key}: {fates or 'is missing in keys.toml'}"
    for name, fate in keys.items():
        assert any(key == name or (name.endswith(".") and key.startswith(name)) for key in recipe_keys), name
        assert fate.to or fate.note, f"{name}: neither an option of verl's nor a reason"
        assert not name.endswith(".") or not fate.to
        assert name in table("verl") or f"{name}*" in table("verl")


@pytest.mark.parametrize(
    ("section", "key", "value", "told"),
    [
        ("model", "revision", "abc", "model.revision = 'abc' cannot be run with verl: .* download the revision"),
        ("model", "device", "cpu", "model.device = 'cpu' cannot be run with verl"),
        ("model", "precision", "float32", "model.precision = 'float32' cannot be run with verl"),
    ],
)
def test_what_verl_cannot_run_is_refused(section, key, value, told):
    with pytest.raises(DiverError, match=told):
        dict(mapped(make_recipe({section: {key: value}}), "verl"))


def test_no_two_keys_set_the_same_option():
    options = [option for option, _ in mapped(Recipe(), "verl")]
    assert len(options) == len(set(options))
