"""math-verify as it is used by itself: what it finds in the whole response, against what it finds in the reference answer.

Its own timeouts are off, since they need the main thread and do not stop SymPy: the worker process is killed instead.
"""

from diver.types import Grade, Problem


def grade(response: str, problem: Problem) -> Grade:
    """No answer where it finds none; an error where it cannot read the reference answer."""
    import math_verify

    known = [problem.answer, f"${problem.answer}$", f"\\boxed{{{problem.answer}}}"]
    golds = [math_verify.parse(text, parsing_timeout=None) for text in known]
    gold = next((g for g in sorted(golds, key=len, reverse=True) if g), None)
    if gold is None:
        return Grade.ERROR
    answer = math_verify.parse(response, parsing_timeout=None)
    if not answer:
        return Grade.NO_ANSWER
    return Grade.CORRECT if math_verify.verify(gold, answer, timeout_seconds=None) else Grade.WRONG
