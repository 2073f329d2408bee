"""METEOR's original Java program, for verification: one process per call, with a time limit."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from capmeter.errors import AssetError, MissingBackend
from capmeter.text.meteor_normaliser import WESTERN
from capmeter.text.meteor_resources import JAR, MeteorLanguage
from capmeter.text.meteor_statistics import COLUMNS

_LOADING, _PER_PAIR = 120.0, 0.05


def java_statistics(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    language: tuple[str, MeteorLanguage],
    directory: Path,
    seconds: float | None = None,
) -> npt.NDArray[np.float64]:
    """The statistics of each candidate with the best of its references, as the program prints them.

    Lines are tokenised captions; `language` is the short name and METEOR's resources for it. The program is stopped
    after `seconds` (by default two minutes plus a twentieth of a second per pair).
    """
    java = shutil.which("java")
    if java is None:
        raise MissingBackend(
            "meteor(backend=java) needs a Java runtime, but there is no `java` on the path; install one, "
            "or leave backend out: meteor gives the same numbers without Java"
        )
    short, known = language
    normalise = "-norm" if known.settings.name in WESTERN else "-lower"
    command = [java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", JAR, "-", "-", "-stdio", "-l", short, normalise]
    if known.modules != known.settings.modules:
        command += ["-m", " ".join(known.modules)]
    lines = [
        " ||| ".join(["SCORE", *map(_line, theirs), _line(mine)])
        for mine, theirs in zip(candidates, references, strict=True)
    ]
    limit = seconds or _LOADING + _PER_PAIR * sum(map(len, references))
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            input="".join(line + "\n" for line in lines).encode("utf-8", "replace"),
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AssetError(f"METEOR's Java program did not finish within {limit:.0f} s and was stopped") from error
    rows = [line.split() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    if done.returncode or len(rows) != len(lines) or any(len(row) != len(COLUMNS) for row in rows):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise AssetError(
            f"METEOR's Java program exited with code {done.returncode} after {len(rows)} of {len(lines)} captions; "
            f"its output: {' | '.join(said[-3:]) or 'none'}"
        )
    return np.array(rows, np.float64).reshape(len(rows), len(COLUMNS))


def _line(sentence: str) -> str:
    """A sentence in the program's input format: on one line, without the separator."""
    return " ".join(sentence.replace("|||", "").split("\n")).replace("\r", " ")
