"""A hundred answers made to hang, to fill the memory or to run code: each gets a grade, in time, and the pool lives."""

import os
import time
from pathlib import Path

import pytest

from diver.core.types import Grade, Problem
from diver.grading import grade
from diver.grading.grading import WARM
from diver.grading.settings import Bounds, Verification
from diver.grading.workers import Pool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.first,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc"),
]

GIGABYTE = 10**9
DEADLINE = 1.0  # some need hours without it

BOXED = [
    "{" * 10_000 + "}" * 10_000,
    "(" * 10_000 + "1" + ")" * 10_000,
    "[" * 60 + "1" + "]" * 60,
    "9^{9^{9^9}}",
    "9^{9^{9^{9^{9^{9^9}}}}}",
    "9**9**9**9",
    "2^{10^{10}}",
    "10^{99999}",
    "(10^{99999})^{99999}",
    "((((2^{99})^{99})^{99})^{99})^{99}",
    "1000000!",
    "99999!",
    "((9!)!)!",
    "9!!!!!!!!!!!!",
    "1" * 10**6,
    "0." + "1" * 10**6,
    "1," * 5 * 10**5,
    "7" * 250 + "^{" + "7" * 5 + "}",
    r"\frac{1}{" * 3000 + "2" + "}" * 3000,
    r"\frac{1}{1+" * 60 + "2" + "}" * 60,
    r"\sqrt{" * 10_000 + "2" + "}" * 10_000,
    r"\sqrt{1+" * 60 + "x" + "}" * 60,
    r"\sqrt[999999]{999999}",
    "+".join(f"{i}x^{{{i}}}" for i in range(400)),
    "+".join(f"x^{{{i}}}y^{{{400 - i}}}" for i in range(200)),
    "(a+b+c+d+e+f)^{60}",
    "(x+y+z)^{9999}",
    "(1+x)^{99999}-(1+x)^{99998}",
    "(x+1)" * 500,
    "x" * 4000,
    "+" * 4000,
    "-" * 4001 + "1",
    r"\int_0^1 \frac{\sin(x^{x^{x}})}{\ln(1+e^{x^{7}})} dx",
    r"\int \int \int \int \sin(xyzw) dx dy dz dw",
    r"\int_0^{\infty} \frac{x^{13}}{\sqrt{e^{x}-1+\sin^{5} x}} dx",
    r"\int \sqrt{\tan(x^{3}) + \sqrt{\cos x}} \, dx",
    r"\sum_{n=1}^{10000000} \frac{1}{n^{3}+n+1}",
    r"\sum_{n=1}^{\infty} \frac{\sin(n^{2})}{n^{n}}",
    r"\sum_{a=1}^{999}\sum_{b=1}^{999}\sum_{c=1}^{999} abc",
    r"\prod_{n=1}^{10000000} (1+\frac{1}{n^{2}})",
    r"\prod_{n=1}^{99999} \prod_{m=1}^{99999} \sin(nm)",
    r"\lim_{x \to 0} (\sin(x)/x)^{1/x^{2}} \cdot \lim_{y \to 0} \frac{\tan(\sin y)-\sin(\tan y)}{y^{7}}",
    r"\binom{999999}{499999}",
    r"\binom{10^{9}}{10^{8}}",
    r"\begin{pmatrix}" + r"\\".join("&".join(["1"] * 1000) for _ in range(1000)) + r"\end{pmatrix}",
    r"\begin{pmatrix}" + r"\\".join("&".join(["x"] * 30) for _ in range(30)) + r"\end{pmatrix}",
    r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{99999}",
    r"\det\begin{pmatrix}" + r"\\".join("&".join(f"x^{i * j}" for i in range(9)) for j in range(9)) + r"\end{pmatrix}",
    ",".join(str(i) for i in range(1000)),
    r"\{" + ",".join(rf"\frac{{{i}}}{{{i + 1}}}" for i in range(150)) + r"\}",
    r"\cup".join(f"({i},{i + 1})" for i in range(300)),
    r"\cos(" * 50 + "x" + ")" * 50,
    r"\sin(10^{9999})",
    r"e^{e^{e^{e^{9}}}}",
    r"\log_{1}{1}",
    r"\frac{1}{0}",
    r"\frac{0}{0}",
    r"0^{0}",
    r"0^{-1}",
    r"\infty - \infty",
    r"|" * 2000 + "x" + "|" * 2000,
    "__import__('os').system('touch hostile')",
    "().__class__.__bases__[0].__subclasses__()",
    "exec(open('/etc/passwd').read())",
    "lambda: [0] * 10**10",
    r"\input{/etc/passwd}",
    r"\def\a{\a\a}\a",
    r"\newcommand{\x}{\x\x}\x",
    r"\text{" * 50 + "x" + "}" * 50,
    r"\boxed{" * 50 + "x" + "}" * 50,
    "\x00" * 100,
    "".join(map(chr, range(32))),
    "\x1b[2J\x1b[1;1H",
    "\u202e5\u202c",
    "\u200f\u200e" * 500 + "5",
    "\u0665",
    "\u0969\u0968\u0967",
    "\uff15",
    "\U0001d7d3",
    "²" * 300,
    "²³¹",
    "½" * 500,
    "é́́́" * 500,
    "\ud800",
    "\ufeff5",
    "∞" * 1000,
    "5\n" * 1000,
    "5 = " * 1000 + "5",
    "x=" * 1000,
    "1/" * 1000 + "1",
    "1_" * 1000 + "2",
    "x_{" * 60 + "1" + "}" * 60,
    r"x \equiv 1 \pmod{10^{99}}",
    r"\dot{" * 60 + "x" + "}" * 60,
    "\\" * 3001,
    "$" * 3001,
    "%" * 3001,
    "1e999999999",
    r"9 \times 10^{999999999}",
]
OPEN = [
    r"\boxed{" * 10_000,
    r"\boxed{5",
    r"\boxed",
    r"the answer is $" * 5000,
    "1 + " * 200_000,
    "9" * 10**6,
    "answer: " + "(" * 4000,
]


def peak_bytes(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def problem(answer=r"\frac{x}{2}"):
    return Problem(id="p", prompt="q", answer=answer)


def test_hostile_answers_without_bounds(tmp_path, monkeypatch):
    """SymPy sees nearly all of them: what is left is the deadline and the limit on memory."""
    monkeypatch.chdir(tmp_path)
    far = 10**9
    bounds = Bounds(length=10_000, nesting=far, digits=5000, exponent=far)
    settings = Verification(timeout_s=DEADLINE / 2, bounds=bounds)
    responses = [rf"So it is \boxed{{{text}}}" for text in BOXED] + OPEN
    assert len(responses) >= 100
    with Pool(workers=2, memory_mb=settings.memory_mb, warm=WARM, patience=0) as pool:
        pool.map(time.sleep, [(0,), (0,)], 60)
        peak, found = 0, []
        for response in responses:
            found += grade([(response, problem())], settings, grader="math", pool=pool)
            peak = max([peak, *map(peak_bytes, pool.pids)])
        assert len(pool.pids) == 2
        assert grade([(r"\boxed{0.5x}", problem())], grader="math", pool=pool) == ["correct"]
    print({v.value: found.count(v) for v in Grade}, f"peak {peak / 1e6:.0f} MB")
    assert len(found) == len(responses) and Grade.CORRECT not in found
    assert peak < GIGABYTE
    assert list(tmp_path.iterdir()) == []


def test_hostile_answers_together():
    """In one call, as a benchmark is graded: the pool works in parallel and loses nobody's grade."""
    hostile = [(text, problem()) for text in [*(rf"\boxed{{{text}}}" for text in BOXED), *OPEN]]
    pairs = hostile + [(rf"\boxed{{{i}x}}", problem(f"{2 * i}x/2")) for i in range(1, 31)]
    with Pool(workers=2, memory_mb=900, warm=WARM) as pool:
        found = grade(pairs, Verification(timeout_s=DEADLINE), grader="math", pool=pool)
        assert len(pool.pids) == 2
    assert found[len(hostile) :] == [Grade.CORRECT] * 30
    assert Grade.CORRECT not in found[: len(hostile)]
