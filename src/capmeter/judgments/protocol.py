"""A protocol: everything besides the metric that decides what its agreement with people comes out as.

Tables of one benchmark disagree by twenty points because a script somewhere flattened three ratings or averaged
them, kept a caption among its own references, or took another τ. Here each of these decisions is a field of one
immutable value. It prints as one line under every table, that line can be parsed back, and a protocol refuses to run
where it does not find the number of judgments it was written for.

>>> protocol = Protocol(name="mine", leave_out=("own-captions",), statistic="tau-c", expect=16992)
>>> print(protocol)
mine(judgments=human,leave_out=own-captions,references=all,ratings=flatten,statistic=tau-c,by=none,expect=16992)
>>> print(changed(protocol, "statistic=tau-b, expect=none"))
mine(judgments=human,leave_out=own-captions,references=all,ratings=flatten,statistic=tau-b,by=none,expect=none)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from capmeter.errors import InputError, ProtocolError
from capmeter.named import Named, read_parameters

REFERENCES = {
    "all": "all that the benchmark gives",
    "without-candidates": "those of the image that are no candidate of this image anywhere in the set",
    "without-human-candidate": "those of the image that are not its human candidate",
    "mean-of-single": "one at a time, and the mean of the scores",
    "max-of-single": "one at a time, and the largest of the scores",
    "draw-K": "K of the image's, drawn with the seed",
    "first-K": "the image's first K",
}
LeaveOut = Literal[
    "own-captions", "human-captions", "machine-captions", "unreferenced", "invalid", "identical", "baselines"
]
Ties = Literal["half", "strict", "random", "first"]
Statistic = Literal["tau-a", "tau-b", "tau-c", "pearson", "spearman", "accuracy-eq", "accuracy"]


@dataclass(frozen=True, kw_only=True)
class Protocol(Named):
    """How judgments and scores become one number.

    What may be left out: `own-captions`, candidates that are one of their image's references; `human-captions`,
    candidates that a person wrote for this image; `machine-captions`, pairs in which a machine wrote a candidate;
    `unreferenced`, what has no references; `invalid`, what the
    benchmark's own checks found invalid; `identical`, pairs of two equal captions; `baselines`, systems that are no
    competitors (human, random, unchanged input). `references` is one of `REFERENCES` (K a number: "draw-5").
    Several ratings of one caption: each a point of its own (`flatten`), their `mean`, their `median`, or the most
    common one (`mode`; of several that are equally common their mean, so 2 of 1, 2, 3 and 2.5 of 1, 1, 4, 4).
    """

    SUMMARY = "how judgments and scores become one number"

    name: str
    judgments: Annotated[str, "human, or another field of the rows; pairs also know consensus and votes"] = "human"
    leave_out: Annotated[tuple[LeaveOut, ...], "what is not judged"] = ()
    references: Annotated[str, f"which references the metric sees: {', '.join(REFERENCES)} (K a number)"] = "all"
    maximum_for: Annotated[tuple[str, ...], "metrics that take max-of-single where others take mean-of-single"] = ()
    ratings: Annotated[Literal["flatten", "mean", "median", "mode"], "several ratings of one caption"] = "flatten"
    statistic: Annotated[Statistic, "accuracy for pairs; accuracy-eq is tie-calibrated"] = "tau-b"
    ties: Annotated[Ties, "equal scores in accuracy: half a point, none, a seeded coin, the first"] = "half"
    by: Annotated[str | None, "a field of the rows: the value is then the mean of its groups' values"] = None
    expect: Annotated[int | None, "how many points, pairs or systems there must be; none accepts any number"] = None
    seed: Annotated[int, "of drawn references and random ties"] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.references not in REFERENCES and not re.fullmatch(r"(draw|first)-[1-9]\d*", self.references):
            known = ", ".join(REFERENCES)
            raise InputError(f"{self.name}: references={self.references} is unknown; expected one of {known}")
        if self.maximum_for and self.references != "mean-of-single":
            raise InputError(
                f"{self.name}: maximum_for={'+'.join(self.maximum_for)} needs references=mean-of-single, but "
                f"references is {self.references}"
            )
        if self.seed < 0 or (self.expect or 0) < 0:
            raise InputError(f"{self.name}: expect and seed must not be negative")

    @property
    def fixed(self) -> frozenset[str]:
        """The name is the name."""
        return frozenset({"name"})

    def shown(self) -> Iterable[str]:
        """Every field that this protocol uses, at its default or not."""
        without = {"ratings"} if self.statistic == "accuracy" else {"ties"}
        if self.ties != "random" and not self.references.startswith("draw-"):
            without.add("seed")
        if not self.maximum_for:
            without.add("maximum_for")
        return [key for key in self.parameters() if key not in without]

    @property
    def single(self) -> bool:
        """Whether the metric sees one reference at a time."""
        return self.references.endswith("-of-single")

    def takes_maximum(self, metric: str) -> bool:
        """Whether the scores by single references of this metric (its text form) become one by their maximum."""
        return self.references == "max-of-single" or metric.partition("(")[0] in self.maximum_for

    @property
    def reference_limit(self) -> int | None:
        """K of "draw-K" and "first-K"."""
        match = re.fullmatch(r"(?:draw|first)-(\d+)", self.references)
        return int(match.group(1)) if match else None

    def check(self, found: int, benchmark: str, unit: str) -> None:
        """A `ProtocolError` where `found` judgments are not what was expected."""
        if self.expect is not None and found != self.expect:
            raise ProtocolError(
                f"{benchmark} under {self.name} must give {self.expect:,} {unit}, but this file gives {found:,}; is it "
                "part of the set, or another version? To judge by it all the same, drop the check "
                "(--sample, or expect=none), and do not compare the value with published ones"
            )


def changed(protocol: Protocol, text: str) -> Protocol:
    """The protocol with fields changed as `field=value, …` says."""
    return replace(protocol, **read_parameters(Protocol, text, protocol.name, fixed=protocol.fixed))
