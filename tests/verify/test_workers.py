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

import pytest

from diver.types import DiverError, Grade
from diver.verify import serve
from diver.verify.workers import Failure, Pool, shared_pool


@pytest.fixture(scope="module")
def pool():
    with Pool(workers=2, patience=0) as pool:
        yield pool


def kind(outcome):
    return outcome.grade if isinstance(outcome, Failure) else outcome


def alive(pid):
    """Running, and not a zombie that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids, seconds):
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, pids))


def test_values_come_in_the_order_of_the_jobs(pool):
    assert pool.map(operator.add, [(i, 1) for i in range(20)], timeout_s=10) == list(range(1, 21))
    assert pool.map(operator.add, [], timeout_s=10) == []


def test_a_late_job_is_killed_and_the_others_are_not(pool):
    start = time.monotonic()
    outcomes = pool.map(time.sleep, [(60,), (0,), (0.01,)], timeout_s=0.5)
    assert [kind(o) for o in outcomes] == [Grade.TIMEOUT, None, None]
    assert time.monotonic() - start < 10


def test_as_many_workers_as_the_process_has_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7, 9, 11, 13}, raising=False)
    assert Pool().limit == 6
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")  # processes of torchrun on this node
    assert Pool().limit == 1 and Pool(workers=3).limit == 3


def test_waiting_in_the_queue_is_not_judging_time(pool):
    pool.map(time.sleep, [(0,), (0,)], timeout_s=10)  # both are warm
    start = time.monotonic()
    assert pool.map(time.sleep, [(0.3,)] * 8, timeout_s=1.0) == [None] * 8  # the last ones wait 0.9 s
    assert time.monotonic() - start > 1.0


def test_an_exception_is_an_error_and_the_worker_lives(pool):
    pool.map(time.sleep, [(0,), (0,)], timeout_s=10)
    before = pool.pids
    error, value = pool.map(operator.truediv, [(1, 0), (1, 2)], timeout_s=10)
    assert kind(error) is Grade.ERROR and "ZeroDivisionError" in error.reason
    assert value == 0.5 and pool.pids == before


def test_a_value_that_is_not_json_is_an_error(pool):
    assert kind(pool.map(Fraction, [(1, 2)], timeout_s=10)[0]) is Grade.ERROR


def test_a_worker_that_dies_costs_its_own_job_only(pool):
    outcomes = pool.map(os._exit, [(3,)], timeout_s=10) + pool.map(operator.neg, [(1,), (2,)], timeout_s=10)
    assert [kind(o) for o in outcomes] == [Grade.ERROR, -1, -2]


def test_a_fork_answers_for_nobody():
    """It would take part in the worker's work, and each job have the value of an earlier one."""
    with Pool(workers=1) as pool:
        assert pool.map(exec, [("import os; os.fork()",), ("import os\nif not os.fork(): 1 / 0",)], 10) == [None, None]
        time.sleep(0.2)
        assert pool.map(operator.neg, [(i,) for i in range(20)], timeout_s=10) == [-i for i in range(20)]


def test_exit_is_an_error_and_the_worker_lives(pool):
    pids = pool.pids
    assert pool.map(sys.exit, [(0,)], timeout_s=10) == [Failure(Grade.ERROR, "SystemExit: 0")]
    assert pool.pids == pids


def test_what_a_job_started_ends_with_its_worker(tmp_path):
    """A verifier that runs a model's program and waits for it: the program does not go on when the time is up."""
    start = f"import subprocess; p = subprocess.Popen(['sleep', '60']); open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
    with Pool(workers=1) as pool:
        assert kind(pool.map(exec, [(f"{start}; p.wait()",)], timeout_s=2)[0]) is Grade.TIMEOUT
        assert wait_until_gone([int((tmp_path / "pid").read_text())], 5)


def test_a_worker_killed_while_idle_is_replaced_without_loss(pool):
    pool.map(time.sleep, [(0,), (0,)], timeout_s=10)
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    assert wait_until_gone(pool.pids, 5)
    assert pool.map(operator.neg, [(1,), (2,), (3,)], timeout_s=10) == [-1, -2, -3]


def test_a_worker_killed_at_work_is_an_error(pool):
    pool.map(time.sleep, [(0,)], timeout_s=10)
    victims = pool.pids
    killer = threading.Timer(0.5, lambda: [os.kill(pid, signal.SIGKILL) for pid in victims])
    killer.start()
    assert kind(pool.map(time.sleep, [(30,)], timeout_s=60)[0]) is Grade.ERROR


def test_memory_is_limited():
    with Pool(workers=1, memory_mb=500) as pool:
        outcomes = pool.map(operator.mul, [("x", 10**9), ("x", 3)], timeout_s=20)
    assert [kind(o) for o in outcomes] == [Grade.ERROR, "xxx"]


def test_from_several_threads(pool):
    found = {}

    def work(n):
        found[n] = pool.map(operator.mul, [(n, i) for i in range(5)], timeout_s=10)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [n * i for i in range(5)] for n in range(4)}


def test_another_worker_starts_when_jobs_wait():
    with Pool(workers=2, patience=0.4) as pool:
        pool.map(operator.neg, [(i,) for i in range(50)], timeout_s=10)
        assert len(pool.pids) == 1
        pool.map(time.sleep, [(0.2,)] * 2, timeout_s=10)
        assert len(pool.pids) == 1
        pool.map(time.sleep, [(0.2,)] * 8, timeout_s=10)
        assert len(pool.pids) == 2


def test_a_lost_worker_is_replaced_at_once(pool):
    pool.map(time.sleep, [(0,), (0,)], timeout_s=10)
    before = pool.pids
    assert [kind(o) for o in pool.map(time.sleep, [(30,), (30,)], timeout_s=0.3)] == [Grade.TIMEOUT] * 2
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
        pool.map(operator.neg, [(1,)], timeout_s=10)
        pids = pool.pids
        pool.close()
        assert not any(map(alive, pids)) and pool.pids == []
        assert pool.map(operator.neg, [(1,)], timeout_s=10) == [-1]


def test_the_shared_pool_is_one():
    assert shared_pool(1) is shared_pool(1) is not shared_pool(2)


def test_workers_import_no_torch(pool):
    from diver.verify.mathematics import grade

    assert grade.__module__ == "diver.verify.mathematics"
    assert pool.map(exec, [("import sys; assert 'torch' not in sys.modules and 'pandas' not in sys.modules",)], 10) == [
        None
    ]
    with Pool(workers=1, warm="diver.verify.equivalence:warm") as warm:
        assert warm.map(exec, [("import sys; assert 'torch' not in sys.modules",)], 10) == [None]


@pytest.mark.parametrize("module", ["fractions", "diver.data.maze"])
def test_what_calls_a_verifier_is_imported_before_the_first_job_s_time_runs(module):
    """With that of a module of one's own, NumPy among it."""
    with Pool(workers=1, warm=module) as pool:
        assert pool.map(exec, [(f"import sys; sys.modules['diver.verify.custom'], sys.modules[{module!r}]",)], 10) == [
            None
        ]


PARENT = """
import os, sys, time, threading
from diver.verify.workers import shared_pool
pool = shared_pool(2)
pool.patience = 0
pool.map(time.sleep, [(0,), (0,)], 10)
if {busy}:
    threading.Thread(target=pool.map, args=(time.sleep, [(60,)], 1.0), daemon=True).start()
    time.sleep(0.3)
print(*pool.pids, flush=True)
{end}
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"])
def test_workers_end_with_their_parent(busy, end):
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", PARENT.format(busy=busy, end=end)], capture_output=True, text=True, timeout=30
    )
    pids = [int(pid) for pid in run.stdout.split()]
    assert len(pids) == 2 and run.returncode == (-9 if end else 0), run.stderr
    assert wait_until_gone(pids, 5)
    assert time.monotonic() - start < 15


def run_python(code):
    """A verifier that runs what a model wrote in a process of its own, with whatever standard input it has itself."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


def test_what_a_verifier_starts_cannot_read_the_jobs(monkeypatch):
    """input() is at the end of a file at once, and the next job is answered."""
    monkeypatch.syspath_prepend(os.path.dirname(__file__))
    with Pool(workers=1, patience=0) as pool:
        jobs = [("print(1)",), ("print(input())",), ("print(2)",)]
        assert pool.map(run_python, jobs, timeout_s=30) == ["1", "EOFError: EOF when reading a line", "2"]
