"""The figure of a front: where its points stand, its labels, and that a name stays text."""

import re

from diver.pages.front_figure import front_svg

POINT = r'<circle(?: class="(\w+)")? cx="([\d.]+)" cy="([\d.]+)"'


def test_places_by_hand():
    """x: 20 and 40 % at 34 and 346, so 30 % at 190. y: 50 and 90 % at 280 and 28, so 70 % at 154."""
    drawn = front_svg({"T 1": [(0.2, 0.9, "untrained"), (0.3, 0.7, "0.5"), (0.4, 0.5, "1")]}, "Pass@1", "Pass@64")
    assert re.findall(POINT, drawn) == [("ring", "34.0", "28.0"), ("", "190.0", "154.0"), ("", "346.0", "280.0")]
    assert 'd="M34.0 28.0L190.0 154.0L346.0 280.0"' in drawn
    assert re.findall(r"end\">(\d+)<", drawn) == ["50", "60", "70", "80", "90"]
    assert re.findall(r"middle\">(\d+)<", drawn) == ["20", "25", "30", "35", "40"]
    assert ">Pass@1, %<" in drawn and ">Pass@64, %<" in drawn and 'aria-label="Pass@64 against Pass@1"' in drawn
    assert "figcaption" not in drawn and drawn.count("<text") == 10 + 2 + 3


def labels(drawn):
    """The boxes of the labels in lines: left, right, top and bottom, at 5.8 px a letter."""
    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">([\d.]+|untrained)<', drawn)
    return [(float(x), float(x) + 5.8 * len(text), float(y) - 9, float(y) + 2) for x, y, text in found]


def test_labels_stand_beside_each_other_and_within_the_figure():
    """Three lines that nearly touch, and points at the edges."""
    series = {
        f"temperature {t}": [(0.3 + 0.03 * i + t / 50, 0.9 - 0.05 * i + t / 50, str(i / 4)) for i in range(5)]
        for t in (0.3, 0.6, 1)
    }
    boxes = labels(front_svg(series, "x", "y"))
    assert len(boxes) == 15
    for i, (left, right, top, bottom) in enumerate(boxes):
        assert left >= 0 and right <= 360 and bottom <= 280
        assert not any(left < b and a < right and top < d and c < bottom for a, b, c, d in boxes[:i])


def test_lines_have_a_name_a_colour_and_only_text():
    drawn = front_svg({"<b>": [(0.1, 0.2, "<i>")], "empty": [], "b": [(0.1, 0.2, "")]}, "<x>", "<y>")
    assert not {"<b>", "<i>", "<x>", "<y>"} & {*re.findall(r"<\w+>", drawn.replace("<b><span>", ""))}
    assert re.findall(r"line r(\d)", drawn) == ["0", "1"] and "&lt;b&gt;" in drawn and "empty" not in drawn
    assert front_svg({}, "x", "y") == "" == front_svg({"a": []}, "x", "y") and "nan" not in drawn
