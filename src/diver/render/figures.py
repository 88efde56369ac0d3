"""The style of all figures, and how they are written: the same data gives the same bytes."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diver.io.files import write_bytes

COLOURS = ("#2456c5", "#c2571a", "#1f8a5b", "#8a4fbf", "#b3232f", "#5c6470", "#0e8fa8", "#a8862b", "#d0569a", "#1b1f24")
UNDATED: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}
INK, GREY, RULE = "#1b1f24", "#5c6470", "#e6e8ec"


@contextmanager
def drawing(*paths: Path, size: tuple[float, float], font_size: float = 9.0) -> Iterator[Any]:
    """A matplotlib Figure of `size` inches, on white; the paths (.png, .svg or .pdf) are written when the block ends."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {"font.family": "sans-serif", "font.size": font_size, "svg.fonttype": "none"}
    with rc_context({**style, "svg.hashsalt": paths[0].stem}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        for path in paths:
            out, kind = io.BytesIO(), path.suffix.removeprefix(".")
            figure.savefig(out, format=kind, dpi=160, facecolor="white", metadata=UNDATED[kind])
            write_bytes(path, out.getvalue())


def frame(axes: Any, title: str, x: str = "", grid: str = "y") -> None:
    """Title and name of the x axis, no frame but the lower line, a pale grid along the axis `grid`."""
    axes.set_title(title, loc="left", fontweight="bold", color=INK)
    axes.set_xlabel(x, color=GREY)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis=grid, color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=GREY, length=0)
