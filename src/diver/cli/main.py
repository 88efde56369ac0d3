"""The command `diver`: which verbs there are, and what becomes of an error."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from diver.cli.streams import outlive_readers
from diver.extras import PACKAGES, missing
from diver.io.provenance import version
from diver.io.text import clean
from diver.types import DiverError

QUIET = "--quiet"
NO_BARS = "TQDM_DISABLE"  # tqdm reads it when it is imported, so nothing here imports tqdm
GROUP = "diver.commands"  # an installed package adds a verb here: a function of the words after it
VERBS = {
    verb: EntryPoint(verb, f"diver.cli.{verb}:command", GROUP)
    for verb in ("train", "trl", "verl", "eval", "compare", "grade", "measure", "browse", "report", "methods")
}
# Errors that the user can correct: a full disk, no permission, an invalid path, such as one in /proc.
USER_ERRORS = {
    errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG,
}  # fmt: skip


def main() -> None:
    """Exit code 0; 2 for an error that the user can correct; 130 when interrupted by the keyboard."""
    outlive_readers()
    sys.path.append(os.getcwd())  # a metric named by its dotted name may live where the command is given
    try:
        _run(sys.argv[1:])
    except DiverError as e:
        _stop(str(e))
    except OSError as e:
        if e.errno not in USER_ERRORS:
            raise
        reason = f"{e.filename or 'a file'}: {os.strerror(e.errno)}"
        _stop(f"{reason}; what was written before is complete: correct this, then run the same command again")
    except ModuleNotFoundError as e:
        if (package := (e.name or "").partition(".")[0].replace("-", "_")) not in PACKAGES:
            raise
        _stop(missing(package))
    except RuntimeError as e:
        if type(e).__name__ != "OutOfMemoryError":
            raise
        _stop(f"{e}; lower sample.max_num_seqs or train.micro_batch_tokens: the same command resumes the run")
    except KeyboardInterrupt:
        print("\ndiver: stopped; the same command resumes from what is saved", file=sys.stderr)
        sys.exit(130)


def commands() -> dict[str, EntryPoint]:
    """Every verb: those of this package, then those of others, by name."""
    return VERBS | {entry.name: entry for entry in sorted(entry_points(group=GROUP))}


def _run(argv: Sequence[str]) -> None:
    end = argv.index("--") if "--" in argv else len(argv)  # what follows is not ours
    if QUIET in argv[:end]:
        os.environ[NO_BARS] = "1"
    verb, *args = [word for word in argv[:end] if word != QUIET] + [*argv[end:]] or ["--help"]
    if verb in ("-h", "--help"):
        print(_help())
    elif verb == "--version":
        print(version("diver-rl"))
    elif entry := VERBS.get(verb) or commands().get(verb):
        entry.load()(args)
    else:
        raise DiverError(f"there is no command {verb!r}; commands are {', '.join(commands())}")


def _help() -> str:
    first_lines = {name: (entry.load().__doc__ or "").partition("\n")[0] for name, entry in commands().items()}
    verbs = "\n".join(f"  {name:9} {line}" for name, line in first_lines.items())
    title = "diver: reinforcement learning that rewards correct answers for being different"
    return f"{title}\n\n{verbs}\n\ndiver COMMAND --help lists its options; in their names - and _ are the same. {QUIET}, with any of them: no progress bars."


def _stop(message: str) -> None:
    print(f"diver: {' '.join(clean(message).split())}", file=sys.stderr)
    sys.exit(2)
