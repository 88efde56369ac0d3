"""What is installed is enough: every import declared, every declaration used, the core at work without torch."""

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import EntryPoint
from pathlib import Path

from diver.cli.main import GROUP

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "diver"
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAMES = {
    "antlr4": "antlr4-python3-runtime",
    "latex2sympy2_extended": "latex2sympy2-extended",
    "math_verify": "math-verify",
    "pydantic_core": "pydantic",
    "reasoning_gym": "reasoning-gym",
    "sentence_transformers": "sentence-transformers",
    "transfer_queue": "TransferQueue",
}  # where the import is called otherwise
TRAINS = {"losses", "generate", "train", "integrations"}  # the rooms that may need torch
EXTRA = {
    "rows.py": {"datasets", "huggingface_hub"},
    "hub.py": {"datasets", "huggingface_hub"},
    "reasoning_gym.py": {"reasoning-gym"},
    "vectors.py": {"sentence-transformers", "torch", "transformers"},
}  # what single files of the others take when they are asked to


def declared(*extras):
    lists = [TOML["project"]["dependencies"], *(TOML["project"]["optional-dependencies"][e] for e in extras)]
    return {re.match(r"[\w-]+", line)[0] for lines in lists for line in lines}


def imported(path):
    """The distributions that a file imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    modules = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    modules += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module]
    tops = {m.split(".")[0] for m in modules} - set(sys.stdlib_module_names) - {"diver", "__future__"}
    return {NAMES.get(top, top) for top in tops}


def test_every_import_is_declared_and_every_declaration_used():
    files = {path: imported(path) for path in SOURCE.rglob("*.py")}
    imports = set().union(*files.values()) - {"wandb", "mlflow", "trackio"}
    assert imports == declared("train", "endpoint", "vllm", "embedding", "trl", "verl", "reasoning-gym")
    assert declared("loggers") - declared() == {
        "wandb",
        "tensorboard",
        "mlflow",
        "trackio",
    }  # the second through torch.utils
    core = {path: names for path, names in files.items() if path.relative_to(SOURCE).parts[0] not in TRAINS}
    for path, names in core.items():
        assert names <= declared() | EXTRA.get(path.name, set()), path


def test_every_command_of_the_study_is_there_with_a_line_of_help():
    for name, value in TOML["project"]["entry-points"][GROUP].items():
        command = EntryPoint(name, value, GROUP).load()
        assert callable(command) and command.__doc__.partition("\n")[0].endswith(".")


def test_all_files_of_the_package_are_in_the_wheel():
    patterns = TOML["tool"]["setuptools"]["package-data"]["diver"]
    files = [p.relative_to(SOURCE) for p in SOURCE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert Path("py.typed") in files and Path("data/countdown_policy/model.safetensors") in files
    for file in files:
        assert any(fnmatch(str(file), pattern) for pattern in patterns), file


WITHOUT_TORCH = """
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in ("torch", "transformers") else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


def test_the_core_works_without_torch_and_training_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    program = """
import diver
from diver.cli import main
from diver.types import Group, Problem, Rollout
from diver.verify import verify

if __name__ == "__main__":  # the workers of verify read this program again
    print(diver.advantages(["a b c d e", "a b c d f"], [1, 0], ["p", "p"]).tolist())
    (group,) = verify([Group(Problem(id="1", prompt="?", answer="1/2"), (Rollout(response=r"\\boxed{0.5}"),))])
    print(group.rollouts[0].grade)
    sys.argv = ["diver", "report", "."]
    main()
    sys.argv = ["diver", "train", RECIPE]
    main()
"""
    command = [
        sys.executable,
        "-c",
        WITHOUT_TORCH + program.replace("RECIPE", repr(str(ROOT / "recipes/quickstart.toml"))),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["[1.0, -1.0]", "correct"] and lines[-1] == "report.html", done.stderr
    told = "torch: not installed, but this command needs it: pip install 'diver-rl[train]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"diver: {told}")


def test_test_files_have_names_of_their_own():
    """pytest imports them as modules without a package: two of one name cannot be in one session."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}


def test_tests_begin_without_hypothesis():
    """The environments of verl and TRL are made without it."""
    code = "import sys; sys.modules['hypothesis'] = None; import conftest"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "tests", check=True)
