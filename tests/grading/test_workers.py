"""The pool against things that really hang, die and fill the memory."""

import operator
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import until

from diver.core.types import DiverError, Grade
from diver.grading import serve, workers
from diver.grading.grading import WARM
from diver.grading.workers import Failure, Pool, Worker, shared_pool

LONG = 600  # seconds that no test waits for
ENOUGH = 60  # seconds for what takes a moment


@pytest.fixture(scope="module")
def started():
    with Pool(workers=2, patience=0) as pool:
        yield pool


@pytest.fixture
def pool(started):
    """With both of its workers there, whatever the test before it has done."""
    started.map(time.sleep, [(0,), (0,)], timeout_s=ENOUGH)
    return started


def kind(outcome):
    return outcome.grade if isinstance(outcome, Failure) else outcome


def alive(pid):
    """Running, and not a zombie that nobody has waited for."""
    if os.path.isdir("/proc/self"):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
    else:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and state[0] != "Z"


def wait_until_gone(pids):
    until(lambda: not any(map(alive, pids)))


def test_values_come_in_the_order_of_the_jobs(pool):
    assert pool.map(operator.add, [(i, 1) for i in range(20)], timeout_s=ENOUGH) == list(range(1, 21))
    assert pool.map(operator.add, [], timeout_s=ENOUGH) == []


def test_a_late_job_is_killed_and_the_others_are_not(pool):
    outcomes = pool.map(time.sleep, [(LONG,), (0,), (0.01,)], timeout_s=2)
    assert [kind(o) for o in outcomes] == [Grade.TIMEOUT, None, None]


def test_as_many_workers_as_the_process_has_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7, 9, 11, 13}, raising=False)
    assert Pool().limit == 6
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")  # processes of torchrun on this node
    assert Pool().limit == 1 and Pool(workers=3).limit == 3


def test_waiting_in_the_queue_is_not_judging_time(monkeypatch):
    """By a clock on which each job takes 0.9 of the timeout: the last of four has waited for 2.7 of it."""
    clock, read = SimpleNamespace(now=0.0), Worker.read

    def read_later(worker):
        clock.now += 900
        return read(worker)

    with Pool(workers=1) as pool:
        pool.map(time.sleep, [(0,)], timeout_s=ENOUGH)
        monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: clock.now))
        monkeypatch.setattr(Worker, "read", read_later)
        assert pool.map(time.sleep, [(0.2,)] * 4, timeout_s=1000) == [None] * 4 and clock.now == 3600


def test_an_exception_is_an_error_and_the_worker_lives(pool):
    before = pool.pids
    error, value = pool.map(operator.truediv, [(1, 0), (1, 2)], timeout_s=ENOUGH)
    assert kind(error) is Grade.ERROR and "ZeroDivisionError" in error.reason
    assert value == 0.5 and pool.pids == before


def test_a_value_that_is_not_json_is_an_error(pool):
    assert kind(pool.map(Fraction, [(1, 2)], timeout_s=ENOUGH)[0]) is Grade.ERROR


def test_a_worker_that_dies_costs_its_own_job_only(pool):
    outcomes = pool.map(os._exit, [(3,)], timeout_s=ENOUGH) + pool.map(operator.neg, [(1,), (2,)], timeout_s=ENOUGH)
    assert [kind(o) for o in outcomes] == [Grade.ERROR, -1, -2]


def test_a_fork_answers_for_nobody():
    """It would take part in the worker's work, and each job have the value of an earlier one."""
    with Pool(workers=1) as pool:
        assert pool.map(exec, [("import os; os.fork()",), ("import os\nif not os.fork(): 1 / 0",)], ENOUGH) == [
            None,
            None,
        ]
        time.sleep(0.2)
        assert pool.map(operator.neg, [(i,) for i in range(20)], timeout_s=ENOUGH) == [-i for i in range(20)]


def test_exit_is_an_error_and_the_worker_lives(pool):
    pids = pool.pids
    assert pool.map(sys.exit, [(0,)], timeout_s=ENOUGH) == [Failure(Grade.ERROR, "SystemExit: 0")]
    assert pool.pids == pids


def test_what_a_job_started_ends_with_its_worker(tmp_path):
    """A verifier that runs a model's program and waits for it: the program does not go on when the time is up."""
    pid = str(tmp_path / "pid")
    start = f"import subprocess; p = subprocess.Popen(['sleep', '{LONG}']); open({pid!r}, 'w').write(str(p.pid))"
    with Pool(workers=1) as pool:
        assert kind(pool.map(exec, [(f"{start}; p.wait()",)], timeout_s=5)[0]) is Grade.TIMEOUT
        wait_until_gone([int((tmp_path / "pid").read_text())])


def test_a_worker_killed_while_idle_is_replaced_without_loss(pool):
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    wait_until_gone(pool.pids)
    assert pool.map(operator.neg, [(1,), (2,), (3,)], timeout_s=ENOUGH) == [-1, -2, -3]


def test_a_worker_killed_at_work_is_an_error(pool, tmp_path):
    at_work = tmp_path / "at work"

    def kill():
        until(at_work.exists)
        for pid in pool.pids:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    job = f"import pathlib, time; pathlib.Path({str(at_work)!r}).touch(); time.sleep({LONG})"
    assert kind(pool.map(exec, [(job,)], timeout_s=LONG)[0]) is Grade.ERROR
    killer.join()


def test_memory_is_limited():
    with Pool(workers=1, memory_mb=500) as pool:
        outcomes = pool.map(operator.mul, [("x", 10**9), ("x", 3)], timeout_s=ENOUGH)
    assert [kind(o) for o in outcomes] == [Grade.ERROR, "xxx"]


def test_from_several_threads(pool):
    found = {}

    def work(n):
        found[n] = pool.map(operator.mul, [(n, i) for i in range(5)], timeout_s=ENOUGH)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [n * i for i in range(5)] for n in range(4)}


def test_another_worker_starts_when_jobs_wait():
    with Pool(workers=2, patience=LONG) as pool:
        pool.map(operator.neg, [(i,) for i in range(50)], timeout_s=ENOUGH)
        assert len(pool.pids) == 1
        pool.map(time.sleep, [(0.1,)] * 2, timeout_s=ENOUGH)
        assert len(pool.pids) == 1
        pool.patience = 0.05
        pool.map(time.sleep, [(0.2,)] * 8, timeout_s=ENOUGH)
        assert len(pool.pids) == 2


def test_a_lost_worker_is_replaced_at_once(pool):
    before = pool.pids
    assert [kind(o) for o in pool.map(time.sleep, [(LONG,), (LONG,)], timeout_s=0.3)] == [Grade.TIMEOUT] * 2
    assert len(pool.pids) == 2 and not set(pool.pids) & set(before)
    assert all(map(alive, pool.pids))


def test_a_worker_that_cannot_start_says_so():
    with Pool(workers=1, warm="no_such_module:warm") as pool, pytest.raises(DiverError, match="no_such_module"):
        pool.map(operator.neg, [(1,)], timeout_s=1)


def test_a_worker_without_its_limit_says_why():
    with Pool(workers=1, memory_mb=1 << 50) as pool, pytest.raises(DiverError, match="OverflowError"):
        pool.map(operator.neg, [(1,)], timeout_s=1)


def test_the_exit_code_told_is_the_worker_s_own(tmp_path, monkeypatch):
    """Its pipe closes a moment before it ends."""
    (tmp_path / "leaves.py").write_text(
        "import os, time\ndef warm(): os.closerange(3, 99); time.sleep(0.3); os._exit(7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Pool(workers=1, warm="leaves:warm") as pool, pytest.raises(DiverError, match=r"\(exit code 7\)"):
        pool.map(operator.neg, [(1,)], timeout_s=1)


@pytest.mark.parametrize("error", [ValueError("current limit exceeds maximum limit"), OSError("not here")])
def test_a_system_that_refuses_the_limit_has_the_deadline_alone(monkeypatch, error):
    asked = []

    def refuse(limit, sizes):
        asked.append((limit, sizes))
        if limit == resource.RLIMIT_AS:
            raise error

    monkeypatch.setattr(resource, "setrlimit", refuse)
    serve._limit_memory(500)
    assert asked == [(resource.RLIMIT_CORE, (0, 0)), (resource.RLIMIT_AS, (500 * 2**20, 500 * 2**20))]


def test_close_ends_the_workers_and_the_pool_can_be_used_again():
    with Pool(workers=1) as pool:
        pool.map(operator.neg, [(1,)], timeout_s=ENOUGH)
        pids = pool.pids
        pool.close()
        assert not any(map(alive, pids)) and pool.pids == []
        assert pool.map(operator.neg, [(1,)], timeout_s=ENOUGH) == [-1]


def test_the_shared_pool_is_one():
    assert shared_pool(1) is shared_pool(1) is not shared_pool(2)


def test_workers_import_no_torch(pool):
    from diver.grading.mathematics import Mathematics

    assert Mathematics.__module__ == "diver.grading.mathematics"
    assert pool.map(
        exec, [("import sys; assert 'torch' not in sys.modules and 'pandas' not in sys.modules",)], ENOUGH
    ) == [None]
    with Pool(workers=1, warm=WARM) as warm:
        assert warm.map(exec, [("import sys; assert 'torch' not in sys.modules",)], ENOUGH) == [None]


@pytest.mark.parametrize("module", ["fractions", "diver.tasks.maze"])
def test_what_calls_a_verifier_is_imported_before_the_first_job_s_time_runs(module):
    """With that of a module of one's own, NumPy among it."""
    with Pool(workers=1, warm=module) as pool:
        assert pool.map(
            exec, [(f"import sys; sys.modules['diver.grading.custom'], sys.modules[{module!r}]",)], ENOUGH
        ) == [None]


def test_math_verify_is_imported_before_the_first_answer_s_time_runs():
    """It takes a second, and on a slow machine longer than the timeout."""
    pytest.importorskip("math_verify")
    with Pool(workers=1, warm="math_verify") as pool:
        assert pool.map(exec, [("import sys; sys.modules['math_verify']",)], ENOUGH) == [None]


PARENT = """
import os, sys, time, threading
from diver.grading.workers import shared_pool
pool = shared_pool(2)
pool.patience = 0
pool.map(time.sleep, [(0,), (0,)], 60)
if {busy}:
    threading.Thread(target=pool.map, args=(time.sleep, [(600,)], 1.0), daemon=True).start()
    time.sleep(0.3)
print(*pool.pids, flush=True)
{end}
"""


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"])
def test_workers_end_with_their_parent(busy, end):
    run = subprocess.run(
        [sys.executable, "-c", PARENT.format(busy=busy, end=end)], capture_output=True, text=True, timeout=LONG
    )
    pids = [int(pid) for pid in run.stdout.split()]
    assert len(pids) == 2 and run.returncode == (-9 if end else 0), run.stderr
    wait_until_gone(pids)


def run_python(code):
    """A verifier that runs what a model wrote in a process of its own, with whatever standard input it has itself."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


def test_what_a_verifier_starts_cannot_read_the_jobs(monkeypatch):
    """input() is at the end of a file at once, and the next job is answered."""
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    with Pool(workers=1, patience=0) as pool:
        jobs = [("print(1)",), ("print(input())",), ("print(2)",)]
        assert pool.map(run_python, jobs, timeout_s=ENOUGH) == ["1", "EOFError: EOF when reading a line", "2"]
