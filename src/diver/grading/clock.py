r"""Times of the day and dates, which are neither ratios nor differences.

2:30 p.m. ~ 14:30 ~ 2:30:00 PM        9:30 is not 3:10
2024-03-05 ~ March 5, 2024 ~ 5 Mar 2024 ~ 2024年3月5日        2024-03-05 is not 2016
"""

import math
import re
from typing import NamedTuple

from diver.core.types import Grade

LONGEST = 64  # characters of a time or a date

_MONTHS = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,?\s*)?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_DATES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"{_YEAR}(?P<gap>[-/.])(?P<month>\d{{1,2}})(?P=gap)(?P<day>\d{{1,2}})",
        rf"{_YEAR}\s*年\s*(?P<month>\d{{1,2}})\s*月\s*(?P<day>\d{{1,2}})\s*[日号]",
        r"(?P<month>\d{1,2})\s*月\s*(?P<day>\d{1,2})\s*[日号]",
        rf"{_WEEKDAY}(?:the\s*)?{_DAY}\s*(?:of\s*)?{_MONTH}(?:,?\s*{_YEAR})?",
        rf"{_WEEKDAY}{_MONTH}\s*(?:the\s*)?{_DAY}(?:,?\s*{_YEAR})?",
        r"(?P<first>\d{1,2})(?P<gap>[/.])(?P<second>\d{1,2})(?P=gap)(?P<year>\d{4})",
    )
)
_SURELY_A_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,4}/\d{1,2}/\d{1,4}|.*[a-z年月].*", re.ASCII | re.DOTALL)
_HALF = r"(?P<half>[ap])\.?\s*m\b\.?"
_TIMES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d)(?::(?P<second>\d\d))?)?\s*{_HALF}",
        r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?",
        r"(?P<hour>\d{1,2})\s*o'?\s?clock",
        r"(?P<chinese>上午|下午|晚上)\s*(?P<hour>\d{1,2})(?:[:点點时時]\s*(?:(?P<minute>\d{1,2})分?)?)",
        r"(?P<hour>\d{1,2})\s*[点點]\s*(?:(?P<minute>\d{1,2})分?|整)?",
    )
)
_COLON = re.compile(r"\s?:\s?")
_NAMED = {"noon": 12, "midnight": 0}


class Time(NamedTuple):
    """`minutes` and `seconds` since midnight; without `half` the time may be in either half of the day."""

    minutes: int
    seconds: int
    half: bool
    sure: bool
    """Whether the text can only be a time: 4:15 may be a ratio, and 3 p.m. the number 3."""
    reducible: bool
    """Whether it is not in lowest terms: then a reference answer is no ratio."""


class Date(NamedTuple):
    days: tuple[tuple[int, int], ...]
    """(month, day); both readings of 3/5, the month first."""
    mark: str
    """The sign between the numbers, if there are two readings."""
    year: str
    weekday: str
    sure: bool


def compare_times(answer: str, gold: str) -> Grade | None:
    """correct or wrong if one of the two is a time or a date, which the other must equal; else None."""
    if min(len(answer), len(gold)) > LONGEST:
        return None
    answer = _COLON.sub(":", answer)  # a reference answer with spaces around its colon is a ratio
    stated, wanted = (_moment(text.lower()) if len(text) <= LONGEST else None for text in (answer, gold))
    if isinstance(stated, Time) and isinstance(wanted, Time):
        return Grade.CORRECT if _same_time(stated, wanted) else Grade.WRONG
    if isinstance(stated, Date) and isinstance(wanted, Date):
        weekdays = not (stated.weekday and wanted.weekday) or stated.weekday == wanted.weekday
        same_order = len(stated.days) == len(wanted.days) == 2 and stated.mark == wanted.mark
        same_day = stated.days == wanted.days if same_order else {*stated.days} & {*wanted.days}
        same = same_day and stated.year == wanted.year and weekdays
        return Grade.CORRECT if same else Grade.WRONG
    surely = (stated and stated.sure) or (wanted and wanted.sure) or (isinstance(wanted, Time) and wanted.reducible)
    return Grade.WRONG if surely else None


def _same_time(stated: Time, wanted: Time) -> bool:
    """A time from 1:00 to 12:59 without a.m. or p.m. may be in either half of the day; 14:30 and 0:15 may not."""
    if stated[:2] == wanted[:2] or stated.half == wanted.half:
        return stated[:2] == wanted[:2]
    ambiguous = wanted if stated.half else stated
    same_dial = stated.minutes % 720 == wanted.minutes % 720 and stated.seconds == wanted.seconds
    return same_dial and 60 <= ambiguous.minutes < 13 * 60


def _moment(text: str) -> Time | Date | None:
    text = text.strip().rstrip(".")
    if text in _NAMED:
        return Time(_NAMED[text] * 60, 0, half=True, sure=True, reducible=False)
    for pattern in _TIMES:
        if match := pattern.fullmatch(text + "." if text.endswith("m") else text):
            return _time(match.groupdict())
    for pattern in _DATES:
        if match := pattern.fullmatch(text):
            return _date(match.groupdict(), text)
    return None


def _time(parts: dict[str, str | None]) -> Time | None:
    hour, minute, second = (int(parts.get(part) or 0) for part in ("hour", "minute", "second"))
    half = parts.get("half") or {"上午": "a", "下午": "p", "晚上": "p"}.get(parts.get("chinese") or "")
    if minute > 59 or second > 59 or hour > 24 or (half and not 1 <= hour <= 12):
        return None
    if half:
        hour = hour % 12 + 12 * (half == "p")
    written = parts.get("minute") or ""
    return Time(
        (hour * 60 + minute) % 1440,
        second,
        half=bool(half),
        sure=bool(written and (half or written[0] == "0")),
        reducible=bool(written) and math.gcd(hour, minute, second) > 1,
    )


def _date(parts: dict[str, str | None], text: str) -> Date | None:
    if month := parts.get("month"):
        days = [(int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1, int(parts["day"] or 0))]
    else:
        first, second = int(parts["first"] or 0), int(parts["second"] or 0)
        days = [*dict.fromkeys([(first, second), (second, first)])]
    days = [(m, d) for m, d in days if 1 <= m <= 12 and 1 <= d <= 31]
    if not days:
        return None
    mark, year, weekday = (parts.get(part) or "" for part in ("gap", "year", "weekday"))
    return Date(tuple(days), mark, year, weekday, sure=bool(_SURELY_A_DATE.match(text)))
