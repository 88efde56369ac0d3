"""The frame of a page: one HTML file, its own style sheet and script inside, and a policy that lets nothing else act.

What a model or a data set wrote reaches the page in two ways only: as escaped text, and in the packed data, which the
script shows through text nodes. The policy forbids every request and every script but the one whose hash it names.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from diver.report.browser import pack
from diver.report.text import text
from diver.types import DiverError

ASSETS = Path(__file__).with_name("assets")
SCRIPTS = ("dom.js", "curves.js", "text.js", "matrix.js", "browser.js", "main.js")
LEGEND = "Marked formulas are in no other response of the group. Choose a pair in the matrix to compare two responses."
NOTHING = "<noscript><p class='note'>Curves and groups are drawn by JavaScript, which is disabled.</p></noscript>"


@cache
def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def document(title: str, sections: Iterable[str], data: Mapping[str, Any]) -> str:
    """The whole page: sections of trusted HTML, and the data that the script draws into #curves and #browser.

    One whose data has a `version` may ask the server that it came from for the newest.
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
    """DiverError where there is something at `path` that is no page of ours: it would be lost."""
    if path.is_dir():
        raise DiverError(f"--out {path}: is a folder; name the page, such as {path / 'page.html'}")
    if not path.exists():
        return
    beginning = _asset("page.html").partition("$")[0].encode()
    with path.open("rb") as file:
        if file.read(len(beginning)) != beginning:
            raise DiverError(
                f"--out {path}: exists and is not a page that diver wrote; name another file, or delete it"
            )


def facts(table: Mapping[str, Any]) -> str:
    """Labels and values side by side."""
    rows = "".join(f"<div><dt>{text(key)}</dt><dd>{text(value)}</dd></div>" for key, value in table.items())
    return f'<dl class="facts">{rows}</dl>'


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """A table of cells of trusted HTML, of the class `kind`; the first cell of a row names it."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    lines = [f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) for first, *rest in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def groups_section(browser: Mapping[str, Any], total: int | None = None, drawn: str = "evenly spaced") -> str:
    """The place of the group browser, with how many of `total` groups it shows and how they were `drawn`; nothing without
    a group."""
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
