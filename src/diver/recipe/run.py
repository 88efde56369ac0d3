"""The run folder of a recipe: the identity of its run, and digests of the files that the recipe names."""

import contextlib
import dataclasses
import importlib.util
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.core.extras import provenance
from diver.core.files import table, to_json
from diver.core.run_folder import RunFolder, runs_in
from diver.core.seeds import fingerprint, rows_fingerprint
from diver.core.types import DiverError
from diver.recipe.data import POLICIES, TESTBEDS
from diver.recipe.recipe import Recipe, check_recipe, flatten, make_recipe

ENCODERS = ("method.diversity.embedding.model", "method.diversity.hidden_state.model")
PATHS = ("data.path", "evaluate.source.path", "model.path", *ENCODERS)
"""The keys that name what a run reads: a file, a folder, or a name on the hub."""


def open_run(recipe: Recipe, origin: Mapping[str, Any] | None = None, **identity: Any) -> RunFolder:
    """The folder of the run of `recipe`. An existing folder is checked; a new one is not yet made.

    Args:
        recipe: all settings of the run.
        origin: the command, the commit and the versions, by default those of this process.
        identity: values that must not change, in addition to the recipe's identity.

    Raises:
        DiverError: the folder has another run.
    """
    check_recipe(recipe)
    engine = recipe.run.engine_name
    if not (recipe.folder / "config.json").is_file() and (runs := runs_in(recipe.folder)):
        raise DiverError(
            f"{recipe.folder}: is a folder of several runs, such as {runs[0].name}; choose another run.folder, or "
            "continue them with --seeds"
        )
    if origin is None:
        origin = {"command": shlex.join(["diver", *sys.argv[1:]]), **provenance()}
    config = {
        "recipe": dataclasses.asdict(recipe),
        "engine": engine,
        "seed": recipe.run.seed,
        "schedule_steps": recipe.train.steps,
        "content": contents(recipe),
        "own_code": own_code(recipe),
        **origin,
    }
    folder = RunFolder(recipe.folder, config, {"engine": engine, **recipe.identity(), **identity}, earlier_identity())
    before = table(folder.config, "content")  # missing in a folder of an earlier version
    changed = [key for key, digest in config["content"].items() if before.get(key, digest) != digest]
    # A path that no start found on this machine is a name on the hub, whose owner counts: a/math is not b/math.
    started, current = flatten(table(folder.config, "recipe")), flatten(config["recipe"])
    digests = before | config["content"]
    changed += [key for key in PATHS if key not in digests and started.get(key, current.get(key)) != current.get(key)]
    if changed:
        folder.close()
        path = started.get(changed[0])
        raise DiverError(
            f"{folder.path}: has a run with other content of {changed[0]}, then {path!r}; choose another run.folder or "
            "delete it"
        )
    digests = table(folder.config, "own_code")
    for name in (name for name, digest in config["own_code"].items() if digests.get(name, digest) != digest):
        print(f"{folder.path}: the file of {name} has changed since this run began with another one", file=sys.stderr)
    return folder


def earlier_identity() -> dict[str, Any]:
    """The values of settings that older folders lack: the defaults, except where older versions did something else."""
    return {"engine": "built-in", **make_recipe({}).identity(), "method.diversity.until": "end"}


def contents(recipe: Recipe) -> dict[str, str]:
    """Digests of the files and folders that a recipe names, by key."""
    values = flatten(dataclasses.asdict(recipe))
    row_files = {key: Path(values[key]).expanduser() for key in PATHS[:2] if values.get(key, "") not in ("", *TESTBEDS)}
    digests = {key: rows_fingerprint(path) for key, path in row_files.items() if path.exists()}
    models = {key: Path(values[key]).expanduser() for key in ("model.path", *ENCODERS) if values[key] not in POLICIES}
    return digests | {key: fingerprint(folder) for key, folder in models.items() if folder.is_dir()}


def own_code(recipe: Recipe) -> dict[str, str]:
    """Digests of the files of a user's method, verifier and so on, by their `module:name` in the recipe."""
    texts = to_json([dataclasses.asdict(recipe), *recipe.method.metric_names])
    digests = {}
    for name in sorted({*re.findall(r'"([\w.]+:\w+)"', texts)}):
        with contextlib.suppress(ImportError, ValueError):  # a wrong module name is refused when it is used
            spec = importlib.util.find_spec(name.partition(":")[0])
            if spec and spec.origin and Path(spec.origin).is_file():
                digests[name] = rows_fingerprint(Path(spec.origin))
    return digests
