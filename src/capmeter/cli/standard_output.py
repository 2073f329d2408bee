"""Standard output that may be closed (`| head`), full, or unable to encode a character: a sentence, not a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from capmeter.core.errors import CapmeterError


class OutputError(CapmeterError):
    """Standard output could not be written (exit code 1)."""


class StandardOutput:
    """A text stream whose failures are `OutputError`; characters outside its encoding are escaped. None: closed."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.encoding = (stream.encoding if stream is not None else None) or "utf-8"

    def write(self, text: str) -> int:
        """Writes the text, possibly part of it to a buffer."""
        escaped_text = text.encode(self.encoding, "backslashreplace").decode(self.encoding)
        with self._failures():
            if self._stream is None:
                raise BrokenPipeError
            self._stream.write(escaped_text)
        return len(text)

    def flush(self) -> None:
        """Flushes the buffer."""
        with self._failures():
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether this is a terminal."""
        return self._stream is not None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._forget()
            raise OutputError("standard output was closed before everything was printed") from None
        except OSError as problem:
            self._forget()
            raise OutputError(f"standard output cannot be written ({problem.strerror or problem})") from None

    def _forget(self) -> None:
        """Drops what is still buffered, so that closing does not fail again."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        with suppress(OSError, ValueError):
            null_file = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_file, stream.fileno())
            os.close(null_file)


@contextmanager
def guarded() -> Iterator[StandardOutput]:
    """Standard output as a `StandardOutput`, while the block runs."""
    original_output = sys.stdout
    output = StandardOutput(original_output)
    sys.stdout = output
    try:
        yield output
    finally:
        sys.stdout = original_output
