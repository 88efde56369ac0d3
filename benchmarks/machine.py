"""On what a result was measured, which stands in its file."""

import platform
from pathlib import Path

from diver.core.extras import commit


def measured_on() -> dict[str, str | None]:
    """The commit of the checkout, with a + where files have changed since; the kind of CPU; the version of Python."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = {flag for line in lines if line.startswith("flags") for flag in line.split()}
    kind = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "other"
    return {"commit": commit(), "processor": kind, "python": platform.python_version()}
