"""`diver measure`."""

from collections.abc import Sequence

from diver.recipe.flags import parse

COMMON = {
    "what to read": "rollouts steps by problem response outcome",
    "what to measure": "metrics k threshold diversity.until diversity.tokenize diversity.embedding.model "
    "diversity.hidden_state.model",
    "what to write": "out groups format figures",
}


def command(args: Sequence[str]) -> None:
    """Measure how diverse the responses are in rollouts of any origin."""
    from diver.pages.measured import write_measured
    from diver.rollouts.measure import Measure, run

    run(parse(Measure, "diver measure", args, COMMON), write_page=write_measured)
