"""What the tests of readers compare."""


def shape(groups):
    return [(g.problem.id, g.problem.meta.get("step"), g.responses, g.outcomes.tolist()) for g in groups]
