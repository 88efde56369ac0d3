"""A person's first hour by a script: from an empty folder, with the commands and files that README and docs print.

    python scripts/first_hour.py OUT                        # clones this repository into OUT and installs it there
    python scripts/first_hour.py OUT --env ../main/.venv    # with an environment that has all that training needs

Each command is read from README.md or docs/, and what it is given beyond the page, so that it ends soon, follows a `+`.
Each step prints the last lines that it said. The script ends with the first command that fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAST = 12  # lines of each command that are printed
QUICKSTART = (
    "--train.steps 3 --evaluate.problems 16 --evaluate.every 0 --evaluate.num_samples 4 --data.countdown.problems 64"
)
OWN = (
    "--model countdown --data.verifier math --data.template plain --sample.group_size 4 --sample.max_tokens 24 "
    "--sample.max_prompt_tokens 56 --train.steps 2 --train.batch_size 4 --train.mini_batch_size 2 "
    "--evaluate.problems 20 --evaluate.num_samples 4"
)
SUMS = "from pathlib import Path; from own_problems import sums, write; write(sums(60), Path('{}'))"


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def printed(page: str, beginning: str) -> str:
    """The command of a page that begins so, without its comment. Exits if the page does not print it."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(beginning):
                return line.partition("  #")[0].rstrip()
    sys.exit(f"{page}: does not print {beginning!r}")


class Person:
    """Someone who types commands into a shell, in `folder`, with `env`."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder, self.env, self.number = folder, env, 0

    def does(self, title: str) -> None:
        self.number += 1
        print(f"\n## {self.number}. {title}", flush=True)

    def types(self, command: str, more: str = "") -> str:
        """Run a command with more words, print what it said, and return that."""
        print(f"\n$ {command}{f'   + {more}' if more else ''}", flush=True)
        words = {"cwd": self.folder, "env": self.env, "text": True}
        done = subprocess.run(f"{command} {more}", shell=True, stdout=-1, stderr=subprocess.STDOUT, **words)
        lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("Updating files")]
        left_out = [f"... {len(lines) - LAST} lines before"] * (len(lines) > LAST)
        print("\n".join(f"    {line[:160]}" for line in [*left_out, *lines[-LAST:]]), flush=True)
        if done.returncode:
            sys.exit(f"step {self.number} failed with exit code {done.returncode}")
        return done.stdout

    def writes(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        print(f"\nwrites {name}, as printed", flush=True)


def install(person: Person, url: str, env: Path | None) -> None:
    person.does("Clone and install (README.md)")
    person.types(printed("README.md", "git clone").replace("URL", url).partition(" && ")[0])
    person.folder /= "diver"
    if env is None:
        person.types(printed("README.md", "python -m venv").partition(" && ")[0])
        env = person.folder / ".venv"
    person.env["PATH"] = f"{env.resolve() / 'bin'}{os.pathsep}{person.env['PATH']}"
    person.env["PYTHONPATH"] = os.pathsep.join(str(person.folder / part) for part in ("src", "scripts", "studies"))
    if env == person.folder / ".venv":
        person.types(printed("README.md", "pip install"))
    (shown,) = blocks("README.md", "text")
    (example,) = blocks("README.md", "python")
    person.writes("example.py", example)
    if person.types("python example.py") != shown:
        sys.exit("README.md: the example prints something else")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--env", type=Path)
    parser.add_argument("--url", default=str(ROOT))
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    skipped = ("PYTHONPATH", "VIRTUAL_ENV")
    person = Person(given.out.resolve(), {key: value for key, value in os.environ.items() if key not in skipped})
    install(person, given.url, given.env)

    person.does("Train, small (docs/quickstart.md; make train runs 200 steps of it)")
    person.types("diver train recipes/quickstart.toml", QUICKSTART)

    person.does("Look (docs/report.md, docs/quickstart.md)")
    person.types(printed("docs/report.md", "diver browse runs/quickstart "))
    person.types(printed("docs/quickstart.md", "diver measure runs/quickstart"))
    person.types(printed("README.md", "diver methods"))

    person.does("Own data as JSONL, CSV and parquet (README.md)")
    person.writes("mine.toml", blocks("README.md", "toml")[0])
    for suffix in ("jsonl", "csv", "parquet"):
        file = f"problems.{suffix}"
        person.types(f'python -c "{SUMS.format(file)}"')
        person.types(printed("README.md", "diver train mine.toml --dry-run"), f"--data {file} {OWN}")
        person.types("diver train mine.toml", f"--data {file} --run.folder runs/{suffix} {OWN}")

    person.does("Compare (README.md)")
    own = f"--data problems.jsonl {OWN}"
    person.types(printed("README.md", "diver train mine.toml --method clip-higher"), own)
    person.types("diver train mine.toml", own)
    person.types(printed("README.md", "diver browse runs/mine runs/baseline"))
    person.types("diver compare runs/baseline runs/mine")

    person.does("A method of one's own (docs/extending.md)")
    text = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"\*\*`([\w.]+)`\*\*\n\n```\w+\n(.*?)```", text, re.DOTALL))
    for name in ("tiny.toml", "my_method.py"):
        person.writes(name, files[name])
    person.types(printed("docs/extending.md", "diver train tiny.toml --run.folder runs/method"))
    print("\nAll steps ended with exit code 0.")


if __name__ == "__main__":
    main()
