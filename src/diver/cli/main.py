"""The command `diver`: each verb is a function, and what a user can put right is told in one line with exit code 2."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tyro
from tyro.conf import Positional

from diver.types import DiverError

PACKAGES = ("diver-rl", "torch", "transformers", "tokenizers", "numpy", "pandas", "math-verify", "sympy")


@dataclasses.dataclass
class TrainArguments:
    """Train a policy as a recipe says, evaluate it, and write a report.

    The same command goes on where a stopped run was, and shows the summary of a finished one. Any key of the recipe
    can be changed by a flag: diver train recipes/quickstart.toml --train.steps 20 --method.name grpo
    """

    recipe: Positional[Path]
    """A TOML file. All its keys are listed below; what it leaves out has the paper's value."""
    dry_run: bool = False
    """Check the recipe, print it with every default filled in, and stop."""


def train(recipe: Path, dry_run: bool = False, flags: Sequence[str] = ()) -> None:
    """Train a policy as a recipe says, evaluate it, and write a report."""
    from diver.config.load import load_recipe
    from diver.config.recipe import make_recipe
    from diver.io.jsonl import to_json

    resolved = load_recipe(recipe, flags)
    if dry_run:
        import json

        print(json.dumps(json.loads(to_json(dataclasses.asdict(resolved))), indent=2))
        return
    from diver.io.run_folder import RunFolder
    from diver.report import summary_table, write_report
    from diver.train.trainer import Trainer

    folder = RunFolder(resolved.folder, _config(resolved), resolved.identity(), make_recipe({}).identity())
    try:
        saved = folder.checkpoints()
        if not saved or int(saved[-1].name.removeprefix("step_")) < resolved.train.steps:
            Trainer(resolved, folder).run()
        write_report(folder.path)
        print(summary_table(folder.path))
    finally:
        folder.close()


@dataclasses.dataclass
class VerlArguments:
    """Run a recipe on a cluster: the verl command that is equivalent to it.

    Problems are written in verl's layout first. Any key of the recipe can be changed by a flag; verl's own options come
    after two dashes: diver verl recipes/paper/qwen2.5-math-7b.toml --method diver-td -- trainer.nnodes=2
    """

    recipe: Positional[Path]
    """A TOML file, as for diver train; its section [verl] says what a cluster adds."""
    dry_run: bool = False
    """Print the command and stop; needs neither verl nor the model."""
    problems_only: bool = False
    """Write the problems, print where they are, and stop."""


def verl(args: Sequence[str]) -> None:
    """Run a recipe on a cluster: the verl command that is equivalent to it."""
    _need("a recipe needs", "torch", "transformers")
    from diver.config.load import load_recipe, split_flags
    from diver.integrations.verl.keys import table
    from diver.integrations.verl.launch import command, shown

    if {"-h", "--help"} & set(args):
        _explain(VerlArguments, "diver verl", f"what becomes of the keys of a recipe:\n{table()}")
        return
    cut = list(args).index("--") if "--" in args else len(args)
    rest, flags = split_flags(args[:cut])
    arguments, unknown = tyro.cli(VerlArguments, prog="diver verl", args=rest, return_unknown_args=True)
    recipe = load_recipe(arguments.recipe, [*unknown, *flags])
    words = command(recipe, args[cut + 1 :])
    if arguments.dry_run:
        print(shown(words))
        return
    if not arguments.problems_only and importlib.util.find_spec("verl") is None:
        raise DiverError("verl: not installed here; give --dry-run for the command, --problems-only for the problems")
    from diver.integrations.verl.parquet import write_problems

    print("\n".join(write_problems(recipe)), flush=True)
    if not arguments.problems_only:
        os.execv(sys.executable, [sys.executable, *words])  # in place of this process, so that signals reach verl


def evaluate(args: Sequence[str]) -> None:
    """Draw many samples of each problem, grade them, estimate Avg@k and Pass@k; or compare such results."""
    from diver.evaluate.compare import compare
    from diver.evaluate.config import EvalConfig
    from diver.evaluate.run import run

    config = tyro.cli(EvalConfig, prog="diver eval", args=args)
    if config.compare:
        print(compare(config.compare))
        return
    if config.generator == "transformers":
        _need("--generator transformers needs", "torch", "transformers")
    run(config, _provenance())


def measure(args: Sequence[str]) -> None:
    """Measure how diverse the responses are in rollouts of any origin."""
    from diver.measure.command import Measure, run

    run(tyro.cli(Measure, prog="diver measure", args=args))


def judge(args: Sequence[str]) -> None:
    """Let a language model rank the answers of several models to the same problems."""
    from diver_paper.judge.command import Judge, run

    run(tyro.cli(Judge, prog="diver judge", args=args))


def report(runs: Positional[tuple[Path, ...]], out: Path | None = None, groups: int = 200) -> None:
    """Write one page of a run, or of several side by side: summary, warning signs, curves, groups to browse.

    The page works offline and from a file. A run that is still going on is shown as far as it has got.

    Args:
        runs: Run folders, such as runs/quickstart.
        out: The page to write; by default report.html in the run's folder, comparison.html here for several runs.
        groups: How many groups the browser holds at most, evenly spaced over the runs; the page grows with them.
    """
    from diver.report import headline, summary_table, write_report

    if not runs:
        raise DiverError("name at least one run folder: diver report runs/quickstart")
    path = write_report(*runs, path=out or (Path("comparison.html") if len(runs) > 1 else None), groups=groups)
    print(summary_table(runs[0]) if len(runs) == 1 else "\n".join(map(headline, runs)))
    print(path)


def reproduce(args: Sequence[str]) -> None:
    """Reproduce a table or figure of the paper by name: train, evaluate, compare; --list shows them."""
    from diver_paper.reproduce import Arguments
    from diver_paper.reproduce import reproduce as run_experiment

    arguments = tyro.cli(Arguments, prog="diver reproduce", args=args)
    run_experiment(arguments, {"commit": _commit(), "versions": _versions()})


TELLABLE = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG,
}  # fmt: skip
COMMANDS: dict[str, Callable[..., None]] = {
    "train": train,
    "verl": verl,
    "eval": evaluate,
    "measure": measure,
    "judge": judge,
    "report": report,
    "reproduce": reproduce,
}


def _config(recipe: Any) -> dict[str, Any]:
    """What config.json says of a run besides its identity."""
    return {
        "recipe": dataclasses.asdict(recipe),
        "seed": recipe.run.seed,
        "schedule_steps": recipe.train.steps,
        "command": shlex.join(["diver", *sys.argv[1:]]),
        **_provenance(),
    }


def _provenance() -> dict[str, Any]:
    """What is recorded of the time and the software, and never compared."""
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str | None]:
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of this source tree, with a + where the package has changes; None where it is no git checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)
        dirty = subprocess.run([*git, "status", "--porcelain", "-uno", "."], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return commit.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def _help() -> str:
    verbs = "\n".join(f"  {name:9} {(verb.__doc__ or '').splitlines()[0]}" for name, verb in COMMANDS.items())
    return f"diver: reinforcement learning that pays correct answers for being different\n\n{verbs}\n\ndiver VERB --help tells more."


def _run(argv: Sequence[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return
    if argv[0] == "--version":
        print(_version("diver-rl"))
        return
    name, *rest = argv
    if name not in COMMANDS:
        raise DiverError(f"there is no command {name!r}; commands are {', '.join(COMMANDS)}")
    if name in ("eval", "measure", "verl", "reproduce", "judge"):
        COMMANDS[name](rest)
        return
    if name != "train":
        tyro.cli(COMMANDS[name], prog=f"diver {name}", args=rest)
        return
    _need("training needs", "torch", "transformers")
    from diver.config.load import describe, split_flags

    if {"-h", "--help"} & set(rest):
        _explain(TrainArguments, "diver train", f"keys of a recipe:\n{describe()}")
        return
    rest, flags = split_flags(rest)
    arguments, unknown = tyro.cli(TrainArguments, prog="diver train", args=rest, return_unknown_args=True)
    train(arguments.recipe, arguments.dry_run, [*unknown, *flags])


def _explain(arguments: type, prog: str, keys: str) -> None:
    """The help of a verb that takes the keys of a recipe as flags."""
    with contextlib.suppress(SystemExit):
        tyro.cli(arguments, prog=prog, args=["--help"])
    print(keys)


def _need(who: str, *packages: str) -> None:
    """The core is installed without what only training needs."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise DiverError(f"{' and '.join(missing)}: not installed, but {who} them: pip install 'diver-rl[train]'")


def main() -> None:
    """Exit code 0, 2 for what the user can put right, 130 when stopped by the keyboard."""
    sys.path.append(os.getcwd())  # a metric named by its dotted name may live where the command is given
    try:
        _run(sys.argv[1:])
    except DiverError as e:
        _stop(str(e))
    except OSError as e:
        if e.errno not in TELLABLE:
            raise
        _stop(
            f"{e.filename or 'the run folder'}: {os.strerror(e.errno)}; what was written before is whole: put this right, then "
            "run the same command again"
        )
    except RuntimeError as e:
        if type(e).__name__ != "OutOfMemoryError":
            raise
        _stop(
            f"{e}; lower sample.max_num_seqs or train.micro_batch_tokens, then run the same command again: it goes on from the last "
            "checkpoint"
        )
    except KeyboardInterrupt:
        print("\ndiver: stopped; the same command goes on from what is saved", file=sys.stderr)
        sys.exit(130)


def _stop(message: str) -> None:
    print(f"diver: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)
