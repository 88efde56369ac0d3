"""What the pages of `diver browse` show."""

import base64
import gzip
import json
import re


def packed(html):
    """What the page's script reads."""
    found = re.search(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]*)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def written(parts):
    """A text as it was written, but for what was cut."""
    return "".join(p if isinstance(p, str) else p[0] if isinstance(p, list) else "…" for p in parts)


def curve(page, metric):
    """(steps, values) of the first run's line in the panel of a metric."""
    curves = packed(page.read_text(encoding="utf-8"))["curves"]
    (panel,) = (panel for panel in curves["panels"] + curves["more"] if panel["id"] == metric)
    return panel["lines"][0]["steps"], panel["lines"][0]["values"]
