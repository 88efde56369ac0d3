"""What is installed is enough: every import declared, every declaration used, the core at work without torch."""

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePath

from diver.core.extras import EXTRAS, PACKAGES, STUDIES, install, missing
from diver.methods import Method
from diver.recipe.data import POLICIES, TESTBEDS
from diver.tasks.testbeds import policy_folder

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "diver"
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDER = ROOT / "studies"
OF_STUDIES = tomllib.loads((FOLDER / "pyproject.toml").read_text())
ENTRIES = OF_STUDIES["project"]["entry-points"]
PACKAGES_OF_STUDIES = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
NAMES = {
    "antlr4": "antlr4-python3-runtime",
    "hydra": "hydra-core",
    "latex2sympy2_extended": "latex2sympy2-extended",
    "math_verify": "math-verify",
    "pydantic_core": "pydantic",
    "reasoning_gym": "reasoning-gym",
    "sentence_transformers": "sentence-transformers",
    "tomli_w": "tomli-w",
    "transfer_queue": "TransferQueue",
}  # where the import is called otherwise
TRAINS = {"losses", "sample", "train", "integrations"}  # the rooms that may need torch as soon as they are imported
LOGGERS = {"wandb", "mlflow", "trackio"}
TRAINERS = {"skyrl", "swift"}  # each imports its adapter, and so it is there


def names(requirements):
    return {re.match(r"[\w-]+", line)[0] for line in requirements} - {"diver-rl"}


CORE = names(TOML["project"]["dependencies"])
OPTIONAL = {extra: names(lines) for extra, lines in TOML["project"]["optional-dependencies"].items()}


def imported(path, anywhere=True):
    """The distributions that a file imports: anywhere in it, or as soon as it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if anywhere else tree.body
    modules = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    modules += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module]
    tops = (
        {m.split(".")[0] for m in modules}
        - set(sys.stdlib_module_names)
        - {"diver", "__future__", *PACKAGES_OF_STUDIES}
    )
    return {NAMES.get(top, top) for top in tops}


def test_every_import_is_declared_and_every_declaration_used():
    imports = set().union(*(imported(path) for path in SOURCE.rglob("*.py")))
    used = set().union(*(OPTIONAL[extra] for extra in (*EXTRAS, "verl")))
    assert imports - LOGGERS - TRAINERS == CORE | used
    assert OPTIONAL["loggers"] == LOGGERS | {"tensorboard"}  # the last through torch.utils


def test_the_core_imports_nothing_of_an_extra_before_it_is_asked_for():
    for path in SOURCE.rglob("*.py"):
        by_name = path.name in ("reasoning_gym.py", "math_verify.py")  # imported where a recipe names them
        by_name |= path.name in ("equivalence.py", "statements.py")  # imported in workers, by name
        if path.relative_to(SOURCE).parts[0] not in TRAINS and not by_name:
            assert imported(path, anywhere=False) <= CORE, path


def test_every_extra_that_a_message_names_brings_the_package():
    for extra, packages in EXTRAS.items():
        assert {NAMES.get(package, package) for package in packages} == OPTIONAL[extra], extra
    brings = {extra: " ".join(lines) for extra, lines in TOML["project"]["optional-dependencies"].items()}
    assert all("diver-rl[verify,report,data]" in brings[extra] for extra in ("train", "endpoint"))
    assert all("diver-rl[train]" in brings[extra] for extra in ("trl", "vllm", "verl"))


def test_a_missing_package_names_the_extra_that_brings_it():
    assert install("train") == "pip install '.[train]' in a clone of DIVER"
    told = "pyarrow: not installed, but this needs it: pip install '.[data]' in a clone of DIVER"
    assert missing("pyarrow") == told


def test_every_command_of_the_studies_is_there_with_a_line_of_help():
    for name, value in ENTRIES["diver.commands"].items():
        command = EntryPoint(name, value, "diver.commands").load()
        assert callable(command) and command.__doc__.partition("\n")[0].endswith(".")


def test_what_the_library_says_of_the_studies_is_what_they_have():
    assert {f"diver.{kind}": sorted(names) for kind, names in STUDIES.items()} == {
        group: sorted(names) for group, names in ENTRIES.items()
    }
    for kind, names in STUDIES.items():  # as installed here; another package may add others
        assert {*names} <= {entry.name for entry in entry_points(group=f"diver.{kind}")}
    for name, value in ENTRIES["diver.methods"].items():
        kind = EntryPoint(name, value, "diver.methods").load()
        assert issubclass(kind, Method) and kind().name == name
    assert {*ENTRIES["diver.testbeds"]} <= {*TESTBEDS}


def test_the_studies_need_the_library_of_their_version_and_nothing_else():
    version = TOML["project"]["version"]
    assert OF_STUDIES["project"]["version"] == version
    assert OF_STUDIES["project"]["dependencies"] == [f"diver-rl[train]=={version}"]
    own = OF_STUDIES["project"]["optional-dependencies"]
    brought = names(line for lines in own.values() for line in lines)
    brought |= CORE | OPTIONAL["train"] | OPTIONAL["verify"] | OPTIONAL["report"] | OPTIONAL["data"]
    assert set().union(*(imported(path) for path in FOLDER.rglob("*.py"))) <= brought


def test_all_packages_and_files_of_the_studies_are_in_their_wheel():
    tables = OF_STUDIES["tool"]["setuptools"]
    assert {name.rstrip("*") for name in tables["packages"]["find"]["include"]} == PACKAGES_OF_STUDIES
    paths = [path for name in PACKAGES_OF_STUDIES for path in (FOLDER / name).rglob("*")]
    files = [path for path in paths if path.is_file() and path.suffix not in (".py", ".pyc")]
    for path in files:
        name, file = path.relative_to(FOLDER).as_posix().split("/", 1)
        patterns = tables["package-data"]["*"] + tables["package-data"].get(name, [])
        assert any(PurePath(file).match(pattern) for pattern in patterns), path


WITHOUT_STUDIES = """
import importlib.metadata
import sys

found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **group: [e for e in found(**group) if e.dist.name != "diver-studies"]
from diver.cli import main

for words in COMMANDS:
    sys.argv = ["diver", *words]
    try:
        main()
    except SystemExit as stop:
        print(stop.code)
"""
SHORT = ("--model", "countdown", "--sample.max_tokens", "40", "--sample.max_prompt_tokens", "24")
FEW = ("--data.maze.problems", "32", "--evaluate.problems", "0")
REFUSED = {  # what the line begins with -> the command
    **{f"diver {verb}": (verb, "--help") for verb in STUDIES["commands"]},
    "command line: method.name = 'poly-epo'": ("train", "recipes/quickstart.toml", "--method", "poly-epo"),
    "method.name = 'xrpo'": ("methods", "grpo", "xrpo"),
    "mine.toml: method.name = 'outcome-batch'": ("train", "mine.toml"),
    "data.path = 'textworld'": ("train", "recipes/testbeds/textworld.toml", *SHORT),
    "the policy 'maze'": ("train", "recipes/testbeds/maze.toml", *FEW),
    "the policy 'graph-coloring'": ("eval", "--model", "graph-coloring", "--benchmarks", "maze"),
}


def test_without_the_studies_a_line_says_how_to_install_them(tmp_path):
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    (tmp_path / "mine.toml").write_text("[method]\nname = 'outcome-batch'\n")
    program = WITHOUT_STUDIES.replace("COMMANDS", repr([*REFUSED.values(), ("methods",)]))
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    told = "comes with the studies: pip install ./studies in a clone of DIVER"
    assert done.stderr.splitlines() == [f"diver: {what} {told}" for what in REFUSED]
    *codes, listed = done.stdout.partition("| method")
    assert codes[0].splitlines().count("2") == len(REFUSED)
    names = {line.split()[1] for line in listed.splitlines() if line.startswith("| ")}
    assert len(names) > 30 and not names & {*STUDIES["methods"]}


def test_the_starting_policies_beside_countdown_come_with_the_studies():
    assert list(POLICIES) == ["countdown", *ENTRIES["diver.policies"]]
    for name, value in ENTRIES["diver.policies"].items():
        folder = EntryPoint(name, value, "diver.policies").load()
        assert folder.parents[1] == FOLDER and (folder / "config.json").is_file() and policy_folder(name) == folder


def test_the_source_archive_leaves_out_what_is_large():
    """`make package` builds it and measures less than 5 MB."""
    left_out = (ROOT / "MANIFEST.in").read_text().splitlines()
    assert {"prune docs/results/records", "recursive-exclude docs *.png", "prune studies", "prune tests"} <= {*left_out}
    large = [path for path in SOURCE.rglob("*") if path.is_file() and path.stat().st_size > 100_000]
    assert large == [SOURCE / "tasks/countdown_policy/model.safetensors"]


def test_all_files_of_the_package_are_in_the_wheel():
    patterns = TOML["tool"]["setuptools"]["package-data"]["diver"]
    files = [p.relative_to(SOURCE) for p in SOURCE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert Path("py.typed") in files and Path("tasks/countdown_policy/model.safetensors") in files
    for file in files:
        assert any(fnmatch(str(file), pattern) for pattern in patterns), file


WITHOUT_EXTRAS = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in {[*PACKAGES]} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def test_the_core_works_by_itself_and_the_rest_is_refused_in_one_line(tmp_path):
    """As the environment of a wheel without extras: `make package` has a real one."""
    (tmp_path / "rollouts.jsonl").write_text('{"problem": "?", "response": "x"}\n')
    program = """
import diver
print(diver.advantages(["a b c d e", "a b c d f"], [1, 0], ["p", "p"], answer_ends=[9, 9], truncated=[0, 0]).tolist())
print(diver.textual_diversity(["a b", "a b c", "d"]).round(3).tolist())
from diver.cli import main
from diver.core.types import DiverError, Group, Problem, Rollout
from diver.grading import verify

for answer in ("1/2", r"\\frac{1}{2} + x"):
    group = Group(Problem(id="1", prompt="?", answer=answer), (Rollout(response=r"\\boxed{0.5}"),))
    try:
        print(verify([group])[0].rollouts[0].grade)
    except DiverError as error:
        print(error)
for words in (["methods", "grpo"], ["measure", "rollouts.jsonl"], ["train", RECIPE], ["eval", "--model", "countdown"]):
    sys.argv = ["diver", *words]
    try:
        main()
    except SystemExit as stop:
        print(stop.code)
""".replace("RECIPE", repr(str(ROOT / "recipes/quickstart.toml")))
    command = [sys.executable, "-c", WITHOUT_EXTRAS + program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    out, told = done.stdout.splitlines(), done.stderr.splitlines()
    assert out[:3] == ["[1.0, -1.0]", "[0.697, 1.0, 1.0]", "correct"], done.stderr
    assert (
        out[3] == missing("math_verify")
        and out[4:6] == ["grpo", ""]
        and out[6].startswith("(r - mean) / std within the group. A_i = (r_i - mean) / std over the group")
        and any(line.startswith("  engines           built-in, TRL, DiverTrainer, verl, ") for line in out)
        and out[-4:] == ["2", "method diver-mix, seed 0, engine built-in", "2", "2"]
    )
    assert told == [f"diver: {missing(package)}" for package in ("scipy", "torch", "matplotlib")]


ALONE = """
import sys

class Alone:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "diver"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Alone)
"""


def test_advantages_by_the_name_of_a_method_need_numpy_alone():
    """As `pip install --no-deps .` beside NumPy (`make package`). GRPO of 1 and 0 is 1 and -1; w-reinforce 0.1, -1."""
    program = """
import diver
columns = {"tokens": [[1], [2]], "logprobs": [[-1.0], [-1.0]], "keys": ["a", "b"], "decode": str, "state": {}}
for name in NAMES:
    found = diver.advantages(["a b c", "a b c"], [1, 0], ["p", "p"], name, **columns)
    print(name, *(round(float(value), 6) for value in found))
try:
    diver.methods.method_named("grpo", threshold=1.0)
except ModuleNotFoundError as error:
    print(error)
"""
    ones = ("grpo", "diver-mix", "diver-annealed", "high-entropy", "ucpo", "max-rl")
    program = program.replace("NAMES", repr((*ones, "w-reinforce")))
    done = subprocess.run([sys.executable, "-c", ALONE + program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [
        *(f"{name} 1.0 -1.0" for name in ones),
        "w-reinforce 0.1 -1.0",
        "No module named 'pydantic'",
    ], done.stderr


def test_test_files_have_names_of_their_own():
    """pytest imports them as modules without a package: two of one name cannot be in one session."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}


def test_tests_begin_without_hypothesis():
    """The environments of verl and TRL are made without it."""
    code = "import sys; sys.modules['hypothesis'] = None; import conftest"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tests", check=True)
