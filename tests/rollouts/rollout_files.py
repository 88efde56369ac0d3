"""What the tests of readers write, and what they compare."""

import json


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def shape(groups):
    return [(g.problem.id, g.problem.meta.get("step"), g.responses, g.outcomes.tolist()) for g in groups]
