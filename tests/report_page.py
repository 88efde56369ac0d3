"""What the pages of `diver browse` show."""

import base64
import gzip
import json
import re

from diver.pages.measured import write_measured
from diver.pages.run_page import render
from diver.pages.run_record import RunRecord
from diver.rollouts.measure import Measure, Measurement
from diver.rollouts.problems import problem_table


def packed(html):
    """What the page's script reads."""
    found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def write_groups(path, of_no_file, title="t", **config):
    """The page of `diver measure` of groups that no file has."""
    measured = Measurement({title: of_no_file}, {title: problem_table(of_no_file)})
    return write_measured(path, Measure(rollouts=("x",), **config), measured)


def write_several(*folders, path, groups=200):
    """The page of several runs side by side."""
    path.write_text(render([RunRecord.read(folder) for folder in folders], groups), encoding="utf-8")
    return path


def written(parts):
    """A text as it was written, but for what was cut."""
    return "".join(p if isinstance(p, str) else p[0] if isinstance(p, list) else "…" for p in parts)


def curve(page, metric):
    """(steps, values) of the first run's line in the panel of a metric."""
    curves = packed(page.read_text(encoding="utf-8"))["curves"]
    (panel,) = (panel for panel in curves["panels"] + curves["more"] if panel["id"] == metric)
    return panel["lines"][0]["steps"], panel["lines"][0]["values"]
