"""Writes every page: an HTML file with a style sheet, a script, and a policy that blocks all else.

Text of models and data sets reaches the page in two ways only: as escaped text, and in the packed data, which the
script shows through text nodes. The policy forbids every request and every script but the one whose hash it names.
"""

import base64
import gzip
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from diver.core.tables import clean
from diver.core.types import DiverError
from diver.train.alerts import Alert

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = ("dom.js", "curves.js", "text.js", "turns.js", "matrix.js", "browser.js", "main.js")
LEGEND = "Marked formulas are in no other response of the group. Choose a pair in the matrix to compare two responses."
NOTHING = "<noscript><p class='note'>Curves and groups are drawn by JavaScript, which is disabled.</p></noscript>"
SPANS = 4  # maximum intervals listed per alert; the rest are counted
CURVES = (
    '<section><h2>Curves</h2>\n<p class="note">By training step, all on the same axis. Point at a curve, or use the '
    f'arrow keys in it, to read every value at a step.</p>\n<div id="curves"></div>{NOTHING}</section>'
)


def text(value: Any) -> str:
    """A value of any origin as HTML text: cleaned and escaped."""
    return html.escape(clean(value))


def short(value: float) -> float | None:
    """A number with the digits that a page shows; None if it is unknown."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def evenly_spaced(total: int, count: int) -> list[int]:
    """At most `count` of the indices 0..total-1, evenly spaced, the first and the last among them."""
    return np.linspace(0, total - 1, min(total, count)).round().astype(int).tolist()


def pack(data: Any) -> bytes:
    """JSON, compressed; the same data gives the same bytes."""
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return gzip.compress(packed.encode("utf-8"), compresslevel=6, mtime=0)


@cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def document(title: str, sections: Iterable[str], data: Mapping[str, Any]) -> str:
    """The HTML of a page: sections of trusted HTML, and the data that the script draws into #curves and #browser.

    A page whose data has a `version` asks its server for a newer one.
    """
    style = _asset("page.css")
    served = bool(data.get("version"))
    scripts = (*SCRIPTS, "watch.js") if served else SCRIPTS
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, scripts)) + "\n})();\n"
    return Template(_asset("page.html")).substitute(
        title=text(title),
        style=style,
        style_hash=_hash(style),
        connect="; connect-src 'self'" if served else "",
        sections="\n".join(filter(None, sections)),
        data=base64.b64encode(pack(data)).decode(),
        script=script,
        script_hash=_hash(script),
    )


def check_page(path: Path) -> None:
    """DiverError if `path` exists and is not a page that diver wrote: it would be lost."""
    if path.is_dir():
        raise DiverError(f"--out {path}: is a folder; name the page, such as {path / 'page.html'}")
    if path.exists():
        beginning = _asset("page.html").partition("$")[0].encode()
        with path.open("rb") as file:
            if file.read(len(beginning)) != beginning:
                raise DiverError(
                    f"--out {path}: exists and is not a page that diver wrote; name another file, or delete it"
                )


def header(eyebrow: str, headline: str, details: str) -> str:
    """The head of a page; `headline` and `details` are trusted HTML."""
    return f'<header><p class="eyebrow">{text(eyebrow)}</p>\n<h1>{headline}</h1>\n{details}</header>'


def section(title: str, content: str) -> str:
    """A section of trusted HTML under its title."""
    return f"<section><h2>{title}</h2>\n{content}</section>"


def facts(table: Mapping[str, Any]) -> str:
    """Labels and values side by side, without those that are empty."""
    items = [(text(key), text(value)) for key, value in table.items() if value not in ("", None)]
    rows = "".join(f"<div><dt>{key}</dt><dd>{value}</dd></div>" for key, value in items)
    return f'<dl class="facts">{rows}</dl>'


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells of trusted HTML; the first cell of a row names it."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    lines = [f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) for first, *cells in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table class="fit"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def text_table(rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, the header first."""
    (first, *names), *body = rows
    return html_table([text(first), *map(text, names)], [[text(row[0]), *map(cell, row[1:])] for row in body])


def cell(value: str) -> str:
    """A value as HTML: a minus before a number, and a small interval. The hyphen of a name or of 1e-05 stays."""
    mean, _, ends = re.sub(r"(?<![\w-])-(?=\d)", "−", text(value)).partition(" [")
    return f"{mean}<small>[{ends}</small>" if ends else mean


def groups_section(browser: Mapping[str, Any], total: int | None = None, drawn: str = "evenly spaced") -> str:
    """The section of the group browser, with the number of groups out of `total` and how they were `drawn`; empty
    without a group."""
    count, unconverted = len(browser["groups"]), browser["unconverted"]
    if not count:
        return ""
    shown = "All groups" if count == total else f"{count:,} groups, {drawn}"
    broken = f" Formulas that could not be converted are shown as LaTeX ({unconverted:,})." if unconverted else ""
    return (
        f'<section id="groups"><h2>Groups</h2>\n<p class="note">{shown}. {text(LEGEND)} '
        f"Texts of more than {browser['max_chars']:,} characters are cut in the middle.{broken}</p>\n"
        f'<div id="browser"></div>{NOTHING}</section>'
    )


def swatch(run: int) -> str:
    return f'<i class="swatch r{run % 6}"></i>'


def alerts_section(alerts: Sequence[Sequence[Alert]], names: Sequence[str], none: str) -> str:
    """The alerts of all runs by kind, each folded, with its steps and a link to its curve; `none` where none fired."""
    kinds: dict[str, tuple[str, str]] = {}
    for i, alert in ((i, alert) for i, of_run in enumerate(alerts) for alert in of_run):
        run = f"{swatch(i)}{text(names[i])} " if len(names) > 1 else ""
        target = "curve-" + "".join(c if c.isalnum() else "-" for c in alert.metric)
        link = f'<a href="#{text(target)}">{text(span_text(alert.spans) or "curve")}</a>' if alert.metric else ""
        where, details = kinds.get(alert.title, ("", ""))
        details += f"<p class='note'>{run}{text(alert.text)} {text(alert.advice)}</p>"
        kinds[alert.title] = f"{where}<span>{run}{link}</span>", details
    rows = "".join(
        f"<li><details><summary>{text(title)}{where}</summary>{details}</details></li>"
        for title, (where, details) in kinds.items()
    )
    content = f'<ul class="alerts">{rows}</ul>' if rows else f'<p class="note">{text(none)}</p>'
    return section("Alerts", content)


def span_text(spans: tuple[tuple[int, int], ...]) -> str:
    """The intervals in words: "step 3", "steps 5–9 and 20–31"; empty without any."""
    if not spans:
        return ""
    words = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in spans[:SPANS]]
    more = [f"{len(spans) - SPANS} later intervals"] if len(spans) > SPANS else []
    *first, last = words + more
    noun = "step" if len(spans) == 1 and spans[0][0] == spans[0][1] else "steps"
    return f"{noun} {', '.join(first)} and {last}" if first else f"{noun} {last}"
