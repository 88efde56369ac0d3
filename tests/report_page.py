"""What a page of `diver browse RUN` shows."""

import base64
import gzip
import json
import re


def curve(page, metric):
    """(steps, values) of the first run's line in the panel of a metric."""
    found = re.search(r'<script type="text/plain" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    curves = json.loads(gzip.decompress(base64.b64decode(found[1])))["curves"]
    (panel,) = (panel for panel in curves["panels"] + curves["more"] if panel["id"] == metric)
    return panel["lines"][0]["steps"], panel["lines"][0]["values"]
