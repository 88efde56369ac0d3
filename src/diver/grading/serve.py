"""The program that a worker runs: one job per line on standard input, one reply per line on its first standard output.

A worker starts this file by its path, so the package's `__init__` does not run for jobs of this package. It would
import NumPy, which takes a fifth of the start of a worker and is not needed to compare answers of mathematics.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from types import ModuleType
from typing import IO, Any

GRACE_SECONDS = 1.0  # seconds after the timeout at which an orphaned worker exits


def serve(options: dict[str, Any]) -> None:
    replies = os.fdopen(os.dup(1), "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it may still want grades
    os.dup2(2, 1)  # whatever a library prints must not look like a reply
    jobs = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a process that a verifier starts must not read the next job
    sys.path[:] = options["path"]
    try:
        module, _, function = options["warm"].partition(":")
        if module.startswith("diver."):  # without the `__init__` of `diver.grading`, which stands empty
            sys.modules["diver.grading"] = ModuleType("diver.grading")
            sys.modules["diver.grading"].__path__ = [os.path.dirname(os.path.abspath(__file__))]
        _limit_memory(options["memory_mb"])
        if function:
            _find(options["warm"])()
        elif module:
            importlib.import_module(module)
            importlib.import_module("diver.grading.custom")  # calls the user's functions
    except Exception as error:
        _reply(replies, {"fatal": f"{type(error).__name__}: {error}"})
        return
    gc.freeze()  # imported modules stay, so the garbage collector need not search them
    gc.enable()
    _reply(replies, {"ready": True})
    process = os.getpid()
    for line in jobs:
        job = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, job["timeout_s"] + GRACE_SECONDS)  # kills this process even if it hangs
        try:
            reply = {"value": _find(job["call"])(*job["arguments"])}
        except BaseException as error:  # the text is untrusted: sys.exit is a failure, too
            reply = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        if os.getpid() != process:  # a forked child must not reply, too
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        _reply(replies, reply)


def _reply(replies: IO[bytes], message: dict[str, Any]) -> None:
    try:
        line = json.dumps(message)
    except (TypeError, ValueError) as error:
        line = json.dumps({"error": f"{type(error).__name__}: {error}"})
    replies.write(line.encode() + b"\n")
    replies.flush()


def _find(name: str) -> Callable[..., Any]:
    module, _, path = name.partition(":")
    target: Any = importlib.import_module(module)
    for attribute in path.split("."):
        target = getattr(target, attribute)
    return target


def _limit_memory(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):  # macOS has no such limit, so only the timeout applies
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


if __name__ == "__main__":
    gc.disable()  # re-enabled after the imports
    serve(json.loads(sys.argv[1]))
