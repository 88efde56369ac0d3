"""The command `diver`: its verbs, and its exit codes."""

import errno
import inspect
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

from diver.core.extras import PACKAGES, added, check_studies, missing, version
from diver.core.settings import choose
from diver.core.tables import clean
from diver.core.types import DiverError

QUIET = "--quiet"
NO_BARS = "TQDM_DISABLE"  # tqdm reads it when it is imported, so nothing here imports tqdm
COMMANDS = "commands"  # an installed package adds a verb here: a function of the words after it
OWN = ("train", "sweep", "eval", "blend", "compare", "grade", "measure", "browse", "methods")
# A function is imported when its verb is used, after --quiet is read.
VERBS = {verb: EntryPoint(verb, f"diver.cli.{verb}:command", COMMANDS) for verb in OWN}
# Errors that the user can correct: a full disk, no permission, an invalid path, such as one in /proc.
USER_ERRORS = {
    errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS,
    errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG,
}  # fmt: skip

NO_MEMORY = ("failed to map segment", "annot allocate memory")  # messages of the loader when memory is short


def main() -> None:
    """Exit code 0; 2 for an error that the user can correct; 130 when interrupted by the keyboard."""
    for name in ("stdout", "stderr"):
        if type(stream := getattr(sys, name)) is io.TextIOWrapper:  # notebooks and tests replace these streams
            setattr(sys, name, lasting(stream))
    os.environ["MPLBACKEND"] = "agg"  # a notebook's backend may not be installed here, and figures are only saved
    sys.path.append(os.getcwd())  # finds modules of the user in the current folder, such as that of a metric
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:
        from diver.train.stopping import how_to_resume

        print(f"\ndiver: stopped; {how_to_resume()} from what is saved", file=sys.stderr)
        sys.exit(130)
    except Exception as e:
        if not (messages := correction(e)):
            raise
        for message in messages:
            print(f"diver: {' '.join(clean(message).split())}", file=sys.stderr)
        sys.exit(2)


def correction(e: Exception) -> Sequence[str]:
    """Messages on what the user can correct; none for another error."""
    package = (getattr(e, "name", None) or "").partition(".")[0].replace("-", "_")
    if isinstance(e, DiverError):
        return [*map(str, e.args)]
    if isinstance(e, OSError) and e.errno in USER_ERRORS:
        reason = f"{e.filename or 'a file'}: {os.strerror(e.errno)}"
        return [f"{reason}; what was written before is complete: correct this, then run the same command again"]
    if isinstance(e, ModuleNotFoundError) and package in PACKAGES:
        return [missing(package)]
    if isinstance(e, MemoryError) or (isinstance(e, ImportError) and any(words in str(e) for words in NO_MEMORY)):
        reason = f"not enough memory ({str(e) or type(e).__name__})"
        return [f"{reason}: allow this process more (ulimit -v limits it), or give it less to read"]
    if type(e).__name__ == "OutOfMemoryError":
        return [f"{e}; lower sample.max_num_seqs or train.micro_batch_tokens: the same command resumes the run"]
    return []


class Unread(io.FileIO):
    """A stream that drops what is written after its reader has closed it, as in `diver eval ... | head`."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            return len(content)


def lasting(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """A copy of `stream` that outlives its reader, and escapes characters that it cannot encode."""
    stream.flush()
    raw = Unread(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # as PYTHONUNBUFFERED says
        encoding=stream.encoding,
        errors="backslashreplace" if stream.errors == "strict" else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _run(argv: Sequence[str]) -> None:
    end = argv.index("--") if "--" in argv else len(argv)  # options of the engine follow
    if QUIET in argv[:end]:
        os.environ[NO_BARS] = "1"
    verb, *args = [word for word in argv[:end] if word != QUIET] + [*argv[end:]] or ["--help"]
    if verb in ("-h", "--help"):
        print(_help())
    elif verb == "--version":
        print(version("diver-rl"))
    elif entry := VERBS.get(verb) or added(COMMANDS).get(verb):
        entry.load()(args)
    else:
        check_studies(COMMANDS, verb, f"diver {verb}")
        choose(verb, [*VERBS, *added(COMMANDS)], "command")


def _help() -> str:
    commands = {**VERBS, **added(COMMANDS)}
    verbs = "\n".join(f"  {name:9} {inspect.getdoc(e.load()) or ''}".partition("\n")[0] for name, e in commands.items())
    title = "diver: reinforcement learning that rewards correct answers for being different"
    return (
        f"{title}\n\n{verbs}\n\ndiver COMMAND --help shows the options that people use, --help all shows all.\n"
        f"In names of options - and _ are the same. {QUIET}: no progress bars."
    )
