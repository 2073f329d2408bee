"""METEOR's lines, as the program answers them (`-stdio`): the statistics of captions, and their scores."""

from __future__ import annotations

from collections import deque

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.metrics.ngram.meteor import COLUMNS, Meteor


class MeteorLines:
    """Stands for METEOR's Java process, to which scripts write lines, and which they end.

    `SCORE ||| reference ||| … ||| candidate` is answered by the 23 statistics of the best reference, `EVAL |||
    statistics ||| statistics …` by the score of each, and of all. `stdin` and `stdout` are the process itself.
    """

    def __init__(self, metric: Meteor) -> None:
        self.stdin = self.stdout = self
        self.returncode = 0
        self._metric = metric
        self._answers: deque[str] = deque()

    def write(self, lines: bytes | str) -> int:
        """Answers these lines."""
        for line in (lines.decode() if isinstance(lines, bytes) else lines).splitlines():
            kind, *fields = (field.strip() for field in line.split("|||"))
            if kind == "SCORE":
                captions = CaptionSet.from_captions([Caption("0", "0", fields[-1], tuple(fields[:-1]))])
                self._answers.append(" ".join(map(str, self._metric.best_counts(captions)[0][0].tolist())))
            elif kind == "EVAL":
                counts = np.array([field.split() for field in fields], np.float64).reshape(-1, len(COLUMNS))
                sums = self._metric.with_scores(counts)
                for part in (*sums, sums.sum(0)):
                    self._answers.append(str(float(self._metric.from_sums(part, np.ones(()))["score"])))
        return len(lines)

    def readline(self) -> bytes:
        """The next answer; nothing without one."""
        return f"{self._answers.popleft()}\n".encode() if self._answers else b""

    def wait(self, timeout: float | None = None) -> int:
        """Nothing: there is no process."""
        return self.returncode

    kill = terminate = poll = flush = close = wait
