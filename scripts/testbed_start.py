"""What a recipe's policy can do before training:
`python scripts/testbed_start.py RECIPE [--problems 256] [--samples 1024]`.

Pass@k on held-out problems, how many different solutions were found of a problem, and the groups of G responses that
are to be expected: none correct, some, all. Sampled by prefixes, which is cheap where responses are short. With
`--checkpoint RUN/checkpoints/step_0300`, what that checkpoint can do. Other flags change the recipe: `--run.seed 200`.
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path

import numpy as np

from diver.core.statistics import pass_at_k
from diver.core.types import DiverError
from diver.recipe.load import load_recipe
from diver_paper.measure import evaluate

KS = (1, 4, 16, 64, 256, 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--problems", type=int, default=256)
    parser.add_argument("--samples", type=int, default=1024)
    args, flags = parser.parse_known_args()
    try:
        recipe = load_recipe(args.recipe, flags)
    except DiverError as error:
        sys.exit(f"testbed_start: {error}")
    sizes = {"problems": args.problems, "num_samples": args.samples}
    recipe = dataclasses.replace(recipe, evaluate=dataclasses.replace(recipe.evaluate, **sizes))
    start = time.process_time()
    solutions = evaluate(recipe, args.checkpoint, last=True)["solutions"]
    correct = np.array([sum(counts) for counts in solutions])
    p, g = correct / args.samples, recipe.sample.group_size
    for k in (k for k in KS if k <= args.samples):
        print(f"Pass@{k}  {pass_at_k(args.samples, correct, k).mean():.3f}")
    print(f"distinct solutions of {args.samples}  {np.mean([len(counts) for counts in solutions]):.2f}")
    none, every = float(np.mean((1 - p) ** g)), float(np.mean(p**g))
    print(f"groups of {g}: none correct {none:.3f}, some {1 - none - every:.3f}, all {every:.3f}")
    print(f"{len(correct)} held-out problems, {time.process_time() - start:.0f} CPU seconds")


if __name__ == "__main__":
    main()
