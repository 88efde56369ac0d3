r"""A formula as math-verify should read it: `1E3` is `1 \times 10^{3}`, `]0,1[` is `(0,1)`, `2**3` is `2^{3}`.

It takes most of these for different answers, or for something else. Linear in the length of the text.
"""

import re
from decimal import Decimal
from fractions import Fraction

from diver.grading.measures import POWERS_OF_TEN, says_more, unit_free, without_unit
from diver.grading.names import with_backslashes
from diver.grading.shorthands import SHORTHANDS
from diver.grading.spelling import GAP, TABLES, TEXT, compiled, replaced, unify


def _improper(mixed: re.Match[str]) -> str:
    """math-verify applies a per cent sign to the fraction of a mixed number alone, and multiplies one before \\pi."""
    whole, top, bottom = map(int, mixed.groups())
    return rf"\frac{{{whole * bottom + top}}}{{{bottom}}}"


def _decimal(product: re.Match[str]) -> str:
    """math-verify rounds a decimal, but not its product with a power of ten. Beyond these, rounding says too much."""
    digits, exponent = product[1], int(product[2])
    if -2 <= exponent <= 15 if "." in digits else "\\" not in product[0] and 0 <= exponent <= 60:
        return f"{Decimal(digits).scaleb(exponent):f}"
    return rf"{digits} \times 10^{{{exponent}}}"


def _evaluated(call: re.Match[str]) -> str:
    """Integer powers in a call as numbers, since math-verify misreads the gcd of a power."""
    return _INTEGER_POWER.sub(lambda power: str(int(power[1]) ** int(power[2])), call[0])


def _repeating(decimal: re.Match[str]) -> str:
    """0.1\\overline{6} as 16 - 1 over 90."""
    whole, once, again = decimal.groups()
    top = int(whole + once + again) - int(whole + once or 0)
    return rf"\frac{{{top}}}{{{(10 ** len(again) - 1) * 10 ** len(once)}}}"


def _root(power: re.Match[str]) -> str:
    """math-verify leaves 2^{0.5} a decimal."""
    sign, whole, digits = power.groups()
    return rf"^{{{sign}\frac{{{int(whole + digits)}}}{{{10 ** len(digits)}}}}}"


def _degrees(angle: re.Match[str]) -> str:
    """1^\\circ 30' as 90/60 degrees: math-verify leaves primes out, as it does quotes."""
    degrees, minutes, seconds = (Fraction(angle[part] or 0) for part in ("degrees", "minutes", "seconds"))
    value = degrees + minutes / 60 + (seconds or Fraction(angle["only"] or 0)) / 3600
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}^{{\circ}}"


def _matrix(rows: re.Match[str]) -> str:
    """A matrix in LaTeX, from Python's `[[1,2],[3,4]]` or the column `[3,4]^T`."""
    lines = [row.split(",") for row in re.findall(r"\[([^\[\]]*)\]", rows["rows"])] if rows["rows"] else []
    lines = lines or [[entry] for entry in rows["column"].split(",")]
    if len({len(line) for line in lines}) > 1:
        return rows[0]
    entries = r"\\".join("&".join(line) for line in lines)
    return rf"\begin{{pmatrix}}{entries}\end{{pmatrix}}"


def _system(found: re.Match[str]) -> str:
    """The rows of a system of equations or of aligned lines as a list; conditions and columns stay as they are."""
    rows = [row.strip().rstrip(",;.") for row in re.sub(r"&\s*(?=[=<>]|\\[lg]eq)", "", found["rows"]).split(r"\\")]
    rows = [row for row in rows if row]
    if found["kind"] not in ("cases", "array"):
        rows = [row.replace("&", "") for row in rows]
    if any("&" in row for row in rows) or (len(rows) > 1 and not all("=" in row for row in rows)):
        return found[0]
    return (" " if any(row.startswith("=") for row in rows) else ", ").join(rows)


def _both(bounds: re.Match[str]) -> str:
    """`x > 0 and x < 1` as 0 < x < 1; two bounds on one side stay."""
    letter, *found = bounds.groups()
    lower, upper = sorted((found[:2], found[2:]), key=lambda bound: bound[0] not in _FLIPPED)
    if lower[0] not in _FLIPPED or upper[0] in _FLIPPED:
        return bounds[0]
    return f"{lower[1]} {_FLIPPED[lower[0]]} {letter} {upper[0]} {upper[1]}"


def _rising(chain: re.Match[str]) -> str:
    """1 > x > 0 as 0 < x < 1."""
    left, first, letter, last, right = chain.groups()
    return f"{right} {_FLIPPED[last]} {letter} {_FLIPPED[first]} {left}"


def _interval(found: re.Match[str]) -> str:
    """]0,1[ excludes the ends that its brackets turn away from."""
    left, ends, right = filter(None, found.groups())
    return ("(" if left == "]" else "[") + ends.replace(";", ",") + (")" if right == "[" else "]")


_ONES, _TENS = (TABLES["numbers"][kind].split() for kind in ("ones", "tens"))
NUMBERS_IN_WORDS = {word: str(number) for number, word in enumerate(_ONES)} | {
    f"{ten}{rest}": str(number + one)
    for number, ten in zip(range(20, 100, 10), _TENS, strict=True)
    for one, rests in enumerate([[""], *([f"-{word}", f" {word}"] for word in _ONES[1:10])])
    for rest in rests
}


_INTEGER_POWER = re.compile(r"(?<!\w)(\d{1,6})\s?\^\s?\{?(\d{1,2})(?!\d)\}?")
_PART_END = r"(?=\s{0,4}(?:[,;)\]]|\\[})\]]|(?:and|or)\b|\Z))"
_NO_UNIT = "|".join(["and|or|to|base|if|for|when", *POWERS_OF_TEN, "dozen|percent|pct"])
_POWER = r"(?:\^\{?-?\d\}?)"
_UNIT = rf"{TEXT}\{{\s{{0,4}}(?!(?:{_NO_UNIT})\b)[A-Za-z](?:[A-Za-z /.]|\\[,;: ]|\\cdot|{_POWER}){{0,40}}\}}{_POWER}?"
_NO_SOLUTION = (
    r"[Nn]o (?:real )?solutions?|(?:[Tt]he )?[Ee]mpty set|无(?:实数)?解|無(?:實數)?解|解なし|해가 없다"
    r"|нет (?:решений|корней)|[Kk]eine Lösung|[Pp]as de solution|[Ss]in solución"
)
_SCALE = (
    r".*(?i:hundred|thousand|[mbrt]r?illi|lakh|crore|dozen|percent|hundert|tausend"
    r"|\bmil\b|\bmille\b|millones|milh|dutzend|docena|douzaine)"
)
_SMALL = r"(?:(?![A-Z])[^\W\d_])"
_APPROXIMATELY = r"\\approx|\\sim(?:eq)?|\\cong|\\doteq|~|大?[约約](?:为|為|等于|等於)?|[Cc]a\."
_PRIME = r"(?:'|\^\s?\{?\s?\\prime(?![A-Za-z])\s?\}?)"
_PRIMES = rf"(?:'\s?'|\^\s?\{{?\s?\\prime\s?\\prime(?![A-Za-z])\s?\}}?|{_PRIME}{{2}})"
_ANGLE = (
    rf"(?:(?P<degrees>\d{{1,9}})\s?\^\s?\{{?\\circ\s?\}}?\s{{0,4}})?"
    rf"(?:(?P<minutes>\d{{1,9}}(?:\.\d{{1,9}})?)\s?{_PRIME}(?!\s?')"
    rf"(?:\s{{0,4}}(?P<seconds>\d{{1,9}}(?:\.\d{{1,9}})?)\s?{_PRIMES})?"
    rf"|(?P<only>\d{{1,9}}(?:\.\d{{1,9}})?)\s?{_PRIMES})"
)
_SIGN = r"<|>|\\[lg]eq(?![A-Za-z])"
_LARGER = r">|\\geq(?![A-Za-z])"
_FLIPPED = {">": "<", r"\geq": r"\leq"}
_BOUND = r"[^<>=,\\{}]{1,20}?|-?\\infty|-?\\frac\{\d+\}\{\d+\}"
_ENDS = r"([^\[\](),;]{1,60}[,;][^\[\](),;]{1,60})"
_MEANING = SHORTHANDS + compiled(
    (rf"(?<![\w.'\"}}]){_ANGLE}(?!['(\w])", _degrees),
    (r"\\log\s?_\s?(?:\{\s?e\s?\}|e(?![A-Za-z]))", r"\\ln "),
    (r"\\(max|min)\s?\\\{((?:[^{}():|<>=]|\{[^{}():|<>=]{0,40}\}){1,200})\\\}", r"\\\1(\2)"),
    (r"(?<![\w.,/^{)}])(\d{1,9})\s{1,4}(\d{1,9})/(\d{1,9})(?=\s{0,4}\\pi(?![A-Za-z]))", _improper),
    (r"(?<![\w.,/^{)}])(\d{1,9})/(\d{1,9})\s{1,4}\\pi(?![A-Za-z])", r"\\frac{\1}{\2}\\pi"),
    (r"\\(?:text|mathrm)\{\s?[Ii]nfinity\s?\}", r"\\infty "),
    (r"(?<![A-Za-z\\])([Ee])_", r"\\mathcal{\1}_"),  # a calligraphic E with an index, not e.
    # A letter behind something else is a vector, and no unit: math-verify would leave it out.
    (r"(?:(?<=[\w)}\s+-])|^(?!\\[a-z]+\{.\}\Z))\\(?:mathbf|textbf|mathit|hat)\{([A-Za-z])\}", r"\\vec{\1}"),
    (
        r"^\\(?:text|mathrm)\{\s*([A-Z](?:\s*(?:,\s*and\b|,|\band\b)\s*[A-Z])+)\s*\}$",
        lambda capitals: ", ".join(re.findall("[A-Z]", capitals[1])),
    ),
    (
        r"^\\text\{\s*([A-Za-z]{2,20}(?:, [A-Za-z]{2,20}){0,8}),? and ([A-Za-z]{2,20})\s*\}$",
        lambda words: ", ".join(rf"\text{{{word}}}" for word in [*words[1].split(", "), words[2]]),
    ),
    (r"^\\text(?:bf)?\{\s*\([A-J]\)\s*\}(?:\s|~|\\[,;: ])*(?=\S)", ""),  # the label of a choice
    (
        r"(?i)^(?:(?:\\text\{(?![^{}]{0,80}(?:\bnot\b|n['’]t\b))[^{}]{0,40}\b(?:answer|total|about|around|roughly"
        r"|approx(?:imately|\.)?|nearly|ca\.)(?!\w)[^{}]{0,20}\}"
        r"|(?:about|around|roughly|approx(?:imately|\.)?|nearly)\s(?=\s?[-\d.\\$])"
        r"|=|\\therefore(?![A-Za-z]))\s*){1,2}(?=\S)",
        "",
    ),
    (r"^(?:\\text\{\s*)?[Aa]ll real numbers\s*\}?$", r"\\mathbb{R}"),
    (rf"^(?:\\text\{{\s*)?(?:{_NO_SOLUTION})\s*\}}?\.?$", r"\\emptyset"),
    (r"^(?:\\text\{\s*)?(?:DNE|[Dd]oes not exist)\s*\}?\.?$", r"\\text{DNE}"),
    (r"(?<!\d)(\d{0,15})\.(\d{0,15})\\(?:overline|bar)\s?\{?(\d{1,15})\}?", _repeating),
    (r"(?<![\w)\]}])\*\*(?=[^\s*])([^*\n]*[^\s*])\*\*(?![\w(])", r"\1"),  # Markdown's emphasis
    (r"(?<=[\w)\]}])(?:\*\*\s*|\s\*\*\s+)(\([^()]*\)|-?(?:\w+(?:\.\d+)?|\.\d+))", r"^{\1}"),  # Python's power
    (r"\^\{?(-?)(\d{0,3})\.(\d{1,6})\}?(?!\d)", _root),
    (r"√\s*(?=\{)", r"\\sqrt"),
    (
        r"(?<=\\sqrt\{)(\d{0,9})\.(\d{1,9})(?=\})",
        lambda found: rf"\frac{{{int(found[1] + found[2])}}}{{{10 ** len(found[2])}}}",
    ),
    (
        r"^\[\s?(?P<rows>\[[^\[\]]{1,200}\](?:\s?,\s?\[[^\[\]]{1,200}\]){0,15})\s?\]$"
        r"|^[\[(](?P<column>[^\[\]()]{1,200})[\])]\s?\^\s?\{?\s?(?:T|\\top|\\intercal)\s?\}?$",
        _matrix,
    ),
    (
        r"^(?:\\left\s?\\\{)?\s*\\begin\{(?P<kind>cases|array|aligned|align\*?|gathered|split)\}(?:\{[clr|\s]*\})?"
        r"(?P<rows>[\s\S]*)\\end\{(?P=kind)\}\s*(?:\\right\s?\.?)?$",
        _system,
    ),
    (
        rf"^([A-Za-z])\s?({_SIGN})\s?({_BOUND})\s*(?:\\text\{{\s*and\s*\}}|\band\b|\\wedge(?![A-Za-z]))"
        rf"\s*\1\s?({_SIGN})\s?({_BOUND})$",
        _both,
    ),
    (rf"^({_BOUND})\s?({_LARGER})\s?([A-Za-z])\s?({_LARGER})\s?({_BOUND})$", _rising),
    (rf"(?<![\w)\]}}])(\]){_ENDS}([\[\]])|(\[){_ENDS}(\[)(?![\w(])", _interval),
    (r"(?<=[\])])\s?U\s?(?=[\[(])", r" \\cup "),
    (r"\\vee\s?(?=[A-Za-z]\s?(?:[<>]|\\[lg]eq))", ", "),  # here \vee joins two inequalities, not two propositions
    (r"^(?:\\text\{\s{0,4})?(?:negative|minus)(?:\s{0,4}\}|\s)\s{0,4}(?=\d|\\frac|\\sqrt)", "-"),
    (
        rf"^(?:\\text\{{)?\s?(?P<sign>(?:negative|minus)\s)?(?P<word>{'|'.join(NUMBERS_IN_WORDS)})\s?\}}?$",
        lambda found: "-" * bool(found["sign"]) + NUMBERS_IN_WORDS[found["word"]],
    ),
    (
        r"(?<=\d)(?:\s|\\[,;: ]){0,4}\\frac\{\\(?:text|mathrm)\{[A-Za-z. ]{1,20}\}(?:\^\{?\d\}?)?\}"
        r"\{\\(?:text|mathrm)\{[A-Za-z. ]{1,20}\}(?:\^\{?\d\}?)?\}$",
        "",
    ),
    (r"√\s*(\d+|[A-Za-z]|\([^()]*\))", r"\\sqrt{\1}"),
    (r"^\\(?:text|mathrm)\{\s*((?:[-$\d]|[(\[]\s?-?\d)[^{}]*)\}$", r"\1"),
    (r"(?<![\w.])(\d+(?:\.\d+)?)(?:[eE]| ?\\(?:times|cdot) ?10\^\{?)([+-]?\d{1,9})(?![\w.])\}?", _decimal),
    (r"\\(?:gcd|lcm|operatorname\{lcm\})\s?\([^()]{0,200}\)", _evaluated),
    (r"(?<![\d.])(\d{1,18}) ?\\frac\{(\d{1,18})\}\{(\d{1,18})\}(?=\\?%)", _improper),
    (r"(?<![\w.,/^_)\]])(\d{1,9})\s{1,4}(\d{1,9})/(\d{1,9})(?![\w/^.{(])", r"\1\\frac{\2}{\3}"),
    (r"_\{\s*\\(?:max|min|sup|inf|lim)\s*\}", lambda m: m[0].replace("\\", "")),  # part of a name
    (
        rf"^(-?\\?\$?[\d.,/]+) ++((?!{_SCALE})(?:(?:in|of) )?[^\W\d_]{_SMALL}{{2,}}(?: {_SMALL}+)*)$",
        lambda found: rf"{found[1]} \text{{{found[2]}}}" if says_more(found[2]) else found[1],
    ),
    # math-verify takes the 5 of "5 \text{ cm}, 6 \text{ cm}" and of "5 \text{ cats and } 6 \text{ dogs}".
    (r",?\s{0,4}\\text\{\s{0,4},?\s{0,4}(?:and|or)\s{0,4}\}", ", "),
    (r"\\text\{([^{}]{1,40}?)\s{1,4}(?:and|or)\s{0,4}\}", r"\\text{\1}, "),
    (
        rf"(?:(?<=\d)|(?<=\d\}})){GAP}{_UNIT}"
        rf"(?:(?:\s|\\[,;: ]|\\cdot|/){{0,4}}{_UNIT}){{0,3}}{_PART_END}",
        without_unit,
    ),
    (rf"(?<=\d)(?:\s{{0,4}}(?:[cdkm]m|ft|in|yd|mi)|\s{{1,4}}m)\s?\^\{{?[23]\}}?{_PART_END}", ""),
    (rf"(?<=\d){GAP}\\Omega{_PART_END}", ""),
    (r"^\\\{\s*[A-Za-z]\s*(?:\\in\s*\\mathbb\{R\}\s*)?[|:](.*(?:[<>]|\\[lgn]eq).*)\\\}$", r"\1"),
    (rf"^\s{{0,4}}(?:{_APPROXIMATELY})(?![A-Za-z])", ""),
    (r"(?<=\d)\s{0,4}\\approx\s{0,4}$", ""),
    (r"^([A-Za-z](?:_\w)?(?:\([^()]{1,20}\))?)\s{0,4}\\approx(?![A-Za-z])(?=[^=]*$)", r"\1 ="),
)
_LISTED = re.compile(r",\s|;|\b(?:and|or)\b")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")


def box(content: str) -> str:
    return rf"\boxed{{{content}}}"


def content_of(text: str) -> str:
    """What a box or a formula holds."""
    return (text[7:-1] if text.startswith(r"\boxed{") else text.strip().strip("$")).strip()


def respell(text: str) -> str:
    """The text, or the content of the box that it is, as math-verify should read it."""
    boxes, start, end = 0, 0, len(text)
    while text.startswith(r"\boxed{", start, end) and text.endswith("}", start, end):
        boxes, start, end = boxes + 1, start + len(r"\boxed{"), end - 1
    text = unify(text[start:end]).strip().rstrip("\\").rstrip()
    if boxes:
        text = with_backslashes(unit_free(text))
    text = replaced(_MEANING, text).strip().rstrip(".")
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text) if _LISTED.search(text) else text
    return r"\boxed{" * boxes + text + "}" * boxes
