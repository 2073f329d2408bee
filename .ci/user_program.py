"""A user's program: what type checkers know of the installed package, and that it runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

import capmeter
from capmeter.integrations.pycocoevalcap import COCOEvalCap


@dataclass(frozen=True, kw_only=True)
class Words(capmeter.MeanMetric):
    """The number of words."""

    NAME: ClassVar[str] = "words"
    SUMMARY: ClassVar[str] = "the number of words"

    least: Annotated[int, "what counts as a word has this many letters"] = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """One number."""
        return ("score",)

    def measure(self, part: capmeter.CaptionSet, context: capmeter.RunContext) -> capmeter.Measurement:
        """A row for each caption."""
        counts = [sum(len(word) >= self.least for word in each.candidate.split()) for each in part]
        return capmeter.Measurement(np.array(counts, np.float64).reshape(-1, 1))


def main(folder: Path) -> None:
    """Scores, compares and explains the example captions."""
    strong = capmeter.load(folder / "strong.json", references=folder / "references.json")
    weak = capmeter.load(folder / "weak.json", references=folder / "references.json")
    results: capmeter.Results = capmeter.score(strong, ["cider-d", Words(least=3)])
    scores: capmeter.Scores = results["cider-d"]
    score: float = scores.score
    items: dict[str, float] = dict(scores.items)
    signature: str = scores.signature
    found = capmeter.compare({"strong": strong, "weak": weak}, ["cider-d"], seed=0)
    p: float = found["cider-d"].between("strong", "weak").p
    metric: capmeter.Metric = capmeter.parse("cider-d(sigma=5.0)")
    print(round(score, 4), len(items), signature, round(p, 4), metric, COCOEvalCap.__name__)
    try:
        capmeter.load(folder / "absent.json")
    except capmeter.InputError as error:
        print(error)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
