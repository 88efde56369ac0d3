"""Settings from environment variables, for adapters that another trainer loads by a dotted path."""

import os
from pathlib import Path

from diver.core.types import DiverError
from diver.recipe.load import load_recipe
from diver.recipe.recipe import Recipe, make_recipe

METHOD, RECIPE = "DIVER_METHOD", "DIVER_RECIPE"


def configured() -> Recipe:
    """The recipe in the file DIVER_RECIPE, or the default recipe with the method DIVER_METHOD.

    An adapter reads [method], [verify] and data.verifier of a recipe.

    Raises:
        DiverError: not exactly one of the variables is set.
    """
    method, path = os.environ.get(METHOD), os.environ.get(RECIPE)
    if bool(method) == bool(path):
        fault = "both are set" if method else "neither is set"
        raise DiverError(f"{METHOD}, {RECIPE}: {fault}; set {METHOD} to the name of a method, or {RECIPE} to a recipe")
    return load_recipe(Path(path)) if path else make_recipe({"method": {"name": method}})
