"""The losses and advantages that other trainers have under the same name, and whether they equal ours.

`scripts/conformance.py` measures it and writes `conformance.json` and docs/conformance.md.
"""

import json
from importlib.resources import files

from diver.methods import Method

PAGE = "docs/conformance.md"


def agreement(method: Method) -> str:
    """Where the loss and the advantage of `method` equal those of the compared releases, and where they differ.

    Equal means equal with at least one setting of that trainer. Empty if no release has the loss or the advantage.
    """
    text = (files("diver.integrations") / "conformance.json").read_text(encoding="utf-8")
    trainers = json.loads(text)["trainers"]
    parts = []
    for name in dict.fromkeys((method.loss.name, method.name)):
        releases: dict[str, list[str]] = {"equal in": [], "differs in": []}
        for trainer, release in trainers.items():
            rows = [row["equal"] for row in release["rows"] if row["name"] == name]
            if rows:
                releases["equal in" if any(rows) else "differs in"].append(f"{trainer} {release['version']}")
        parts += [f"{name} {how} {', '.join(where)}" for how, where in releases.items() if where]
    return f"{'; '.join(parts)} ({PAGE})" if parts else ""
