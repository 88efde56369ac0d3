"""An installed wheel at work, outside of any clone: what the core and each extra promise (see package.sh).

python package_check.py [EXTRA]
"""

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import diver
from diver.core.types import DiverError
from diver.recipe.data import POLICIES
from diver.tasks.testbeds import policy_folder

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ROWS = [{"problem": f"{i}?", "response": f"so ${i}+{j}$", "correct": j == 0} for i in range(4) for j in range(3)]


def seconds(*words: str) -> float:
    """CPU seconds of a command that must succeed, the least of three runs."""
    times = []
    for _ in range(3):
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return min(times)


def core() -> None:
    assert "site-packages" in diver.__file__, diver.__file__
    for name, code in {
        "python": "pass",
        "import numpy": "import numpy",
        "import diver": "import diver",
        "diver.advantages": "import diver; print(diver.advantages(['a b', 'a c'], [1, 0], [0, 0]))",
    }.items():
        print(f"{name}: {seconds(sys.executable, '-c', code):.2f} CPU s")
    code, shown = (
        re.findall(rf"^```{kind}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0] for kind in ("python", "text")
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout == shown, f"the README's Python: {printed.stdout}{printed.stderr}"
    print(f"diver methods: {seconds('diver', 'methods'):.2f} CPU s")
    refused = subprocess.run(["diver", "train", "--model", "x", "r.toml"], capture_output=True, text=True)
    assert refused.returncode == 2, refused.stderr
    study = subprocess.run(["diver", "reproduce", "--list"], capture_output=True, text=True)
    told = "diver: diver reproduce comes with the studies: pip install ./studies in a clone of DIVER\n"
    assert (study.returncode, study.stderr) == (2, told), study.stderr
    absent = subprocess.run(["diver", "methods", "poly-epo"], capture_output=True, text=True)
    assert absent.returncode == 2 and told.partition(" comes ")[2] in absent.stderr, absent.stderr
    try:
        policy_folder("maze")
        raise AssertionError("the core has the policy of the mazes")
    except DiverError as error:
        assert str(error).endswith("comes with the studies: pip install ./studies in a clone of DIVER"), error


def studies() -> None:
    """Their commands beside those of the core, and their policies; without the extras that they bring, one is named in
    one line."""
    folders = [policy_folder(name) for name in POLICIES]
    assert all(folder and (folder / "model.safetensors").is_file() for folder in folders), folders
    printed = subprocess.run(["diver", "--help"], capture_output=True, text=True).stdout
    assert all(f"  {verb} " in printed for verb in ("judge", "reproduce", "validity")), printed
    methods = subprocess.run(["diver", "methods", "poly-epo"], capture_output=True, text=True)
    assert methods.returncode == 0 and "the mean value of all sets of k" in methods.stdout, methods.stderr
    missing = subprocess.run(["diver", "reproduce", "--list"], capture_output=True, text=True)
    assert missing.returncode == 2 and "not installed, but this needs it" in missing.stderr, missing.stderr


def verify() -> None:
    from diver.core.types import Group, Problem, Rollout
    from diver.grading import verify as verified

    group = Group(Problem("1", "?", r"$\frac{x+1}{2}$"), (Rollout(r"\boxed{\frac{1}{2} + \frac{x}{2}}"),))
    assert verified([group])[0].rollouts[0].grade == "correct"


def report() -> None:
    print(f"diver browse: {seconds('diver', 'browse', 'rollouts.jsonl', '--out', 'page.html'):.2f} CPU s")
    print(f"diver measure: {seconds('diver', 'measure', 'rollouts.jsonl', '--out', 'measured'):.2f} CPU s")
    assert diver.read("rollouts.jsonl").frame().shape[0] == len(ROWS)


def data() -> None:
    import pyarrow
    from pyarrow import parquet

    from diver.tasks.sources import load_problems

    parquet.write_table(pyarrow.Table.from_pylist([{"problem": "1 + 1?", "answer": "2"}]), "p.parquet")
    assert load_problems("p.parquet")[0].answer == "2"


def endpoint() -> None:
    """Up to the first request, which nobody answers."""
    words = [
        "--generator",
        "endpoint",
        "--url",
        "http://127.0.0.1:9/v1",
        "--model",
        "m",
        "--retries",
        "0",
        "--samples",
        "1",
    ]
    done = subprocess.run(["diver", "eval", *words], capture_output=True, text=True)
    assert done.returncode == 2 and "http://127.0.0.1:9/v1" in done.stderr, done.stderr


def train() -> None:
    settings = {"sample.max_tokens": 40, "sample.max_prompt_tokens": 24, "train.steps": 1, "train.batch_size": 2}
    flags = [str(word) for key, value in settings.items() for word in (f"--{key}", value)]
    Path("tiny.toml").write_text("[train]\nmini_batch_size = 2\n[evaluate]\nproblems = 2\nnum_samples = 2\n")
    done = subprocess.run(["diver", "train", "tiny.toml", *flags], capture_output=True, text=True)
    assert done.returncode == 0 and Path("runs/tiny/report.html").stat().st_size > 10_000, done.stderr


CHECKS: dict[str, Callable[[], None]] = {
    "core": core, "studies": studies, "verify": verify, "report": report, "data": data, "endpoint": endpoint,
    "train": train,
}  # fmt: skip

if __name__ == "__main__":
    if (extra := sys.argv[1] if sys.argv[1:] else "core") not in CHECKS:
        sys.exit(f"{extra!r} is none of {', '.join(CHECKS)}")
    Path("rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    CHECKS[extra]()
