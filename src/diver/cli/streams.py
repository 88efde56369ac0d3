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
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.FileIO) or isinstance(raw, _Pipe):
        return stream  # text in memory, or done before
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
    )
