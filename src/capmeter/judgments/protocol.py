"""A protocol: every decision besides the metric that affects its measured agreement with human judgments.

Published tables of one benchmark disagree by twenty points because one script flattened three ratings and another
averaged them, kept a caption among its own references, or used another τ. Here each of these decisions is a field of
one immutable value. It is printed as one line under every table, that line can be parsed back, and a protocol refuses
to run on a number of judgments other than the one it was written for.

>>> protocol = Protocol(name="mine", leave_out=("own-captions",), statistic="tau-c", expect=16992)
>>> print(protocol)
mine(judgments=human,leave_out=own-captions,references=all,ratings=flatten,statistic=tau-c,by=none,expect=16992)
>>> print(change_protocol(protocol, "statistic=tau-b, expect=none"))
mine(judgments=human,leave_out=own-captions,references=all,ratings=flatten,statistic=tau-b,by=none,expect=none)
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from capmeter.core.errors import InputError, ProtocolError
from capmeter.core.named import Named, read_parameters

REFERENCES = {
    "all": "all of the benchmark's references",
    "without-candidates": "the image's references that are not candidates of this image anywhere in the set",
    "without-human-candidate": "the image's references except its human candidate",
    "mean-of-single": "one at a time; the score is the mean",
    "max-of-single": "one at a time; the score is the maximum",
    "draw-K": "K of the image's references, sampled with the seed",
    "first-K": "the image's first K references",
    "at-least-2": "all of the benchmark's references, a single one twice",
}
LeaveOut = Literal[
    "own-captions", "human-captions", "machine-captions", "unreferenced", "invalid", "identical", "baselines"
]
Ties = Literal["half", "strict", "random", "first"]
Statistic = Literal[
    "tau-a",
    "tau-b",
    "tau-c",
    "pearson",
    "spearman",
    "accuracy-eq",
    "accuracy",
    "agreement",
    "average-precision",
    "auc",
    "localisation",
]


@dataclass(frozen=True, kw_only=True)
class Protocol(Named):
    """How judgments and scores are turned into one number.

    What can be excluded: `own-captions`, candidates that are among their image's references; `human-captions`,
    candidates that a person wrote for this image, and pairs with one; `machine-captions`, pairs in which a
    machine wrote a candidate; `unreferenced`, what has no references; `invalid`, what the benchmark's own validation
    found invalid; `identical`, pairs of two equal captions; `baselines`, systems that did not compete
    (human, random, unchanged input).
    `references` is one of `REFERENCES` (K a number: "draw-5"). Several ratings of one caption: each its own data point
    (`flatten`), their `mean`, their `median`, or the most common one (`mode`; if several are equally common, their
    mean: 2 for 1, 2, 3 and 2.5 for 1, 1, 4, 4).
    """

    SUMMARY = "how judgments and scores are turned into one number"

    name: str = field()
    judgments: Annotated[str, "human, or another field of the rows; for pairs also consensus or votes"] = "human"
    leave_out: Annotated[tuple[LeaveOut, ...], "what is excluded"] = ()
    references: Annotated[str, f"which references the metric is given: {', '.join(REFERENCES)} (K a number)"] = "all"
    texts: Annotated[Literal["as-written", "letters"], "letters: words of the 26 letters alone, in lower case"] = (
        "as-written"
    )
    maximum_for: Annotated[tuple[str, ...], "metrics that use max-of-single where others use mean-of-single"] = ()
    ratings: Annotated[Literal["flatten", "mean", "median", "mode"], "how ratings of one caption are combined"] = (
        "flatten"
    )
    statistic: Annotated[
        Statistic,
        "accuracy for pairs, without people's ties; agreement for pairs with them: a metric ties as many; "
        "accuracy-eq is tie-calibrated",
    ] = "tau-b"
    ties: Annotated[Ties, "equal scores in accuracy: half a point, none, at random (seeded), the first"] = "half"
    by: Annotated[str | None, "a field of the rows to group by: the value is the mean over groups"] = None
    expect: Annotated[int | None, "the required number of points, pairs or systems; none accepts any number"] = None
    seed: Annotated[int, "for sampled references and random ties"] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.references not in REFERENCES and not re.fullmatch(r"(draw|first)-[1-9]\d*", self.references):
            allowed_rules = ", ".join(REFERENCES)
            raise InputError(f"{self.name}: references={self.references} is unknown; expected one of {allowed_rules}")
        if self.maximum_for and self.references != "mean-of-single":
            raise InputError(
                f"{self.name}: maximum_for={'+'.join(self.maximum_for)} needs references=mean-of-single, but "
                f"references is {self.references}"
            )
        if self.seed < 0 or (self.expect or 0) < 0:
            raise InputError(f"{self.name}: expect and seed must not be negative")

    @property
    def implied_parameters(self) -> frozenset[str]:
        """The name is not a parameter."""
        return frozenset({"name"})

    def non_default_parameters(self) -> Iterable[str]:
        """Every field that this protocol uses, including defaults."""
        excluded_fields = {"accuracy": {"ratings"}, "agreement": {"ratings", "ties"}}.get(self.statistic, {"ties"})
        if self.ties != "random" and not self.references.startswith("draw-"):
            excluded_fields.add("seed")
        if not self.maximum_for:
            excluded_fields.add("maximum_for")
        if self.texts == "as-written":
            excluded_fields.add("texts")
        return [field_name for field_name in self.parameters() if field_name not in excluded_fields]

    @property
    def single(self) -> bool:
        """Whether the metric is given one reference at a time."""
        return self.references.endswith("-of-single")

    def takes_maximum(self, metric: str) -> bool:
        """Whether single-reference scores of this metric (its text form) are combined by their maximum."""
        return self.references == "max-of-single" or metric.partition("(")[0] in self.maximum_for

    @property
    def reference_limit(self) -> int | None:
        """K of "draw-K" and "first-K"."""
        match = re.fullmatch(r"(?:draw|first)-(\d+)", self.references)
        return int(match.group(1)) if match else None

    def check(self, found: int, benchmark: str, unit: str) -> None:
        """A `ProtocolError` if the number of judgments is not the expected one.

        Args:
            found: the number of judgments.
            benchmark: its name.
            unit: what is counted, for the message.
        """
        if self.expect is not None and found != self.expect:
            raise ProtocolError(
                f"{benchmark} under {self.name} expects {self.expect:,} {unit}, but this file has {found:,}; is it a "
                "subset, or another version? To use it anyway, drop the check (--sample, or expect=none), and do not "
                "compare the value with published ones"
            )


def change_protocol(protocol: Protocol, text: str) -> Protocol:
    """The protocol with fields changed as `field=value, …` says."""
    return replace(protocol, **read_parameters(Protocol, text, protocol.name, implied=protocol.implied_parameters))
