"""A table of clip-higher against diver-mix on Qwen2.5-1.5B and GSM8K, in one hour of one GPU of 80 GB.

    python scripts/one_hour.py verl             # or trl; needs verl or TRL, vLLM and the hub
    python scripts/one_hour.py verl --dry-run   # checks the recipe of both runs, prints the commands, and stops

NOT RUN: no GPU was at hand. The hour, by arithmetic: a step has 64 x 8 responses of about 250 tokens after prompts of about
100, 0.18 M tokens. At 10,000 sampled tokens a second they take 13 s; old log-probs and the update, 8 operations a parameter
and token, 1.5 B x 8 x 0.18 M = 2.2 PFLOP, 9 s at 250 TFLOP/s; with 3 s for the weights' way to vLLM 25 s, so that 60 steps of
both methods are 50 minutes. Each of three evaluations, 300 problems x 8 samples, is 0.6 M tokens: one minute, and one to load.
The same command resumes: every part of it does.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from diver.config.data import Source
from diver.config.load import load_recipe
from diver.data.sources import load_problems
from diver.io.jsonl import write_jsonl

RECIPE = Path("recipes/qwen2.5-1.5b-gsm8k.toml")
METHODS = ("clip-higher", "diver-mix")
ENGINES = ("verl", "trl")
TEST = Path("build/gsm8k_test.jsonl")
PROBLEMS = 300


def trainings(engine: str) -> list[list[str]]:
    """The command of each method's run."""
    return [
        ["diver", engine, str(RECIPE), "--method", name, "--run.folder", f"runs/one-hour/{engine}-{name}"]
        for name in METHODS
    ]


def evaluations(engine: str) -> list[list[str]]:
    """The evaluation of the base model and of both runs, on the same problems, and the comparison with the first."""
    recipe = load_recipe(RECIPE)
    last = f"checkpoints/step_{recipe.train.steps:04d}"
    models = {"base": recipe.model.path, **{name: f"runs/one-hour/{engine}-{name}/{last}" for name in METHODS}}
    folders = {name: f"runs/one-hour/{engine}-{name}/eval-0.6" for name in models}
    options = shlex.split(
        f"--benchmarks {TEST} --generator vllm --template {recipe.data.template} --grader {recipe.data.verifier} "
        f"--temperature 0.6 --max-tokens {recipe.sample.max_tokens} --samples 8"
    )
    made = [["diver", "eval", "--model", models[name], *options, "--out", folders[name]] for name in models]
    return [*made, ["diver", "eval", "--compare", folders["clip-higher"], folders["diver-mix"], folders["base"]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    diver = str(Path(sys.executable).with_name("diver"))
    for words in [] if args.dry_run else trainings(args.engine):
        subprocess.run([diver, *words[1:]], check=True)
    if args.dry_run:
        for words in trainings(args.engine):
            subprocess.run([diver, *words[1:], "--dry-run"], check=True, stdout=subprocess.DEVNULL)
            print(shlex.join(words))
    elif not TEST.exists():
        problems = load_problems(Source(path="openai/gsm8k", config="main", split="test", limit=PROBLEMS))
        write_jsonl(TEST, ({"id": p.id, "problem": p.prompt, "answer": p.answer} for p in problems))
    for words in evaluations(args.engine):
        print(shlex.join(words), flush=True)
        if not args.dry_run:
            subprocess.run([diver, *words[1:]], check=True)


if __name__ == "__main__":
    main()
