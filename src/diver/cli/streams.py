"""Standard output and error whose reader may go away, as `diver eval ... | head` does: the work goes on, unread."""

import io
import os
import sys
from typing import TextIO


class _Pipe(io.FileIO):
    """A descriptor that becomes /dev/null when nobody reads it any longer."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream.fileno(), "w", closefd=False)
        self.stream = stream  # whose end would close the descriptor

    def write(self, data: object) -> int:  # type: ignore[override]
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)  # type: ignore[arg-type]


def outlive_readers() -> None:
    """From now on, no BrokenPipeError comes from a print, a progress bar or the end of the interpreter."""
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)


def _lasting(stream: TextIO) -> TextIO:
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # the same where Python is not to buffer (PYTHONUNBUFFERED, as in many images)
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.FileIO) or isinstance(raw, _Pipe):
        return stream  # text in memory, or done before
    stream.flush()
    pipe = _Pipe(stream)
    return io.TextIOWrapper(
        pipe if raw is buffer else io.BufferedWriter(pipe),  # type: ignore[arg-type]  # as Python itself makes it
        encoding=stream.encoding,
        errors="backslashreplace" if stream.errors == "strict" else stream.errors,  # such as a folder's name
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
