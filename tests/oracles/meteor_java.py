"""METEOR 1.5's original Java program as a metric, for comparison: one process per call, with a time limit."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.metrics.ngram.meteor import COLUMNS, Meteor
from capmeter.text.meteor.resources import JAR, WESTERN, load_meteor_resources, meteor_directory
from capmeter.text.tokenization.token_tables import Tokens, TokenTable

_SECONDS = 240.0


@dataclass(frozen=True, kw_only=True)
class JavaMeteor(Meteor):
    """METEOR whose counts come from the Java program."""

    def best_counts(self, part: CaptionSet) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The program's numbers of each caption with its best reference, as it prints them."""
        tokens: TokenTable = part.pool.analyse(Tokens(self.tokenizer))
        lines = [_line(" ".join(tokens.row(k))) for k in range(len(part.pool))]
        rows = [
            " ||| ".join(["SCORE", *(lines[k] for k in part.references[row].tolist()), lines[candidate]])
            for row, candidate in enumerate(part.candidates.tolist())
        ]
        return self._run(rows), np.zeros(len(part), np.bool_)

    def _run(self, rows: list[str]) -> npt.NDArray[np.float64]:
        resources = load_meteor_resources(self.language, self.path)
        normalise = "-norm" if resources.settings.name in WESTERN else "-lower"
        command = ["java", "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", JAR, "-", "-", "-stdio", "-l", self.language]
        command.append(normalise)
        if resources.modules != resources.settings.modules:
            command += ["-m", " ".join(resources.modules)]
        text = "".join(row + "\n" for row in rows).encode("utf-8", "replace")
        folder = meteor_directory(self.path)
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, timeout=_SECONDS, check=True)
        printed = [line.split() for line in done.stdout.decode("utf-8").splitlines()]
        return np.array(printed, np.float64).reshape(len(rows), len(COLUMNS))


def _line(sentence: str) -> str:
    """A sentence in the program's input format: on one line, without the separator."""
    return " ".join(sentence.replace("|||", "").split("\n")).replace("\r", " ")
