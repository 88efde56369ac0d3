"""`diver sweep`."""

import sys
from collections.abc import Sequence

COMMON = {
    "what to compare": "methods rates set runs baseline seeds equal",
    "fronts": "alphas temperatures samples k selection",
    "the work": "jobs out dry_run",
}


def command(args: Sequence[str]) -> None:
    """Compare settings over seeds, each at its best weights and temperature."""
    from diver.recipe.load import parse_arguments
    from diver.sweep.arguments import SweepArguments, make_plan
    from diver.sweep.page import write_page
    from diver.sweep.pilot import at_equal_time, estimate, pilot
    from diver.sweep.plan import HELD_OUT
    from diver.sweep.run import check_records, sweep

    arguments = parse_arguments(SweepArguments, args, "diver sweep", COMMON)
    plan = make_plan(arguments, args)
    if arguments.equal == "steps":  # else `sweep` checks, since the steps are not known before the pilot
        check_records(plan)
    for note in plan.problems(plan.base_recipe)[HELD_OUT].notes:
        print(note, file=sys.stderr)
    costs = pilot(plan)
    if arguments.equal == "time":
        plan = at_equal_time(plan, costs)
    print("\n".join(estimate(plan, costs, arguments.jobs)), flush=True)
    if arguments.dry_run:
        return
    try:
        sweep(plan, arguments.jobs)
    finally:
        print(f"page: {write_page(plan)}")
