"""Entry point of a worker for answers that need algebra. math-verify and SymPy are imported when it is called."""

from collections.abc import Sequence


def equivalent(answers: Sequence[str], golds: Sequence[str]) -> bool | None:
    """See `equivalence.equivalent`."""
    from diver.grading import equivalence

    return equivalence.equivalent(answers, golds)


def warm() -> None:
    """See `equivalence.warm`."""
    from diver.grading import equivalence

    equivalence.warm()
