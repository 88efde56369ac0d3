"""What changed in Pass@k: in words for the headline, and as a row of changes, one for each k."""

import math
from collections.abc import Sequence

from diver.evaluate.comparison import Comparison
from diver.pages import page

SIGNS = {"rose": "▲\u00a0", "fell": "▼\u00a0"}
Part = tuple[str, str]
"""rose, fell or nothing, and the words that say it."""


def kind(row: Comparison) -> str:
    """The sign of a significant change, rose or fell; empty for any other change."""
    return "" if not row.significant else "rose" if row.change.mean > 0 else "fell"


def verdict(rows: Sequence[Comparison], trained: bool = True) -> list[Part]:
    """The changes at the smallest and the largest k, and the first significant one if neither of these is.

    `trained` says that they are changes by training, not differences from another policy.
    """
    passes = [row for row in rows if row.is_pass and not math.isnan(row.change.mean)]
    ends = [*dict.fromkeys([*passes[:1], *passes[-1:]])]
    if not any(map(kind, ends)):
        ends = [*ends[:1], *[row for row in passes[1:-1] if kind(row)][:1], *ends[1:]]
    verbs = {"rose": "rose", "fell": "fell"} if trained else {"rose": "is higher", "fell": "is lower"}
    same = "did not change significantly" if trained else "does not differ significantly"
    if len(ends) > 1 and not any(map(kind, ends)):
        return [("", f"{' and '.join(row.label for row in ends)} {same.replace('does', 'do')}")]
    return [
        (way, f"{row.label} {verbs[way]} by {100 * abs(row.change.mean):.1f} points" if way else f"{row.label} {same}")
        for way, row in zip(map(kind, ends), ends, strict=True)
    ]


def headline(parts: Sequence[Part]) -> str:
    """The words as HTML, each change in its colour and after its sign."""
    coloured = {name: f'<span class="{name}">{sign}' for name, sign in SIGNS.items()}
    return ", ".join(f"{coloured[way]}{page.text(words)}</span>" if way else page.text(words) for way, words in parts)


def changes(rows: Sequence[Comparison], name: str = "") -> str:
    """The change at each k with its interval, and the levels before and after if known; `name` is trusted HTML."""
    items = ""
    for row in rows:
        if row.is_pass and not math.isnan(row.change.mean):
            change = SIGNS.get(kind(row), "") + page.cell(row.show(row.change, "+"))
            levels = f"<small>{100 * row.base.mean:.1f} → {100 * row.trained.mean:.1f}\u00a0%</small>"
            levels *= not math.isnan(row.base.mean)
            items += f'<li class="{kind(row)}">{page.text(row.label)}<b>{change}</b>{levels}</li>'
    return f"{name}<ul class='changes'>{items}</ul>" if items else ""
