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
from dataclasses import dataclass, replace

from capmeter.errors import InputError, ProtocolError
from capmeter.stats.pair_accuracy import TIES

LEAVE_OUT = {
    "own-captions": "candidates that are one of their image's references",
    "human-captions": "candidates that a person wrote for this image",
    "unreferenced": "what has no references",
    "invalid": "what the benchmark's own checks found invalid",
    "identical": "pairs of two equal captions",
    "baselines": "systems that are no competitors (human, random, unchanged input)",
}
REFERENCES = {
    "all": "all that the benchmark gives",
    "without-candidates": "those of the image that are no candidate of this image anywhere in the set",
    "without-human-candidate": "those of the image that are not its human candidate",
    "each": "one at a time, and the mean of the scores",
    "draw-K": "K of the image's, drawn with the seed",
    "first-K": "the image's first K",
}
RATINGS = ("flatten", "mean", "median")
STATISTICS = ("tau-a", "tau-b", "tau-c", "pearson", "spearman", "accuracy-eq", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How judgments and scores become one number.

    judgments: which of the benchmark's human judgments ("human", or another field of its rows, such as "precision";
        pairs also know "consensus" and "votes").
    leave_out: what is not judged, among `LEAVE_OUT`.
    references: which references the metric sees, among `REFERENCES` (K a number: "draw-5").
    ratings: several ratings of one caption: each a point of its own (flatten), their mean, or their median.
    statistic: tau-a, tau-b, tau-c, pearson, spearman, accuracy-eq (tie-calibrated), or accuracy for pairs.
    ties: what equal scores are worth in `accuracy`: half a point, strict none, random a seeded coin, first the first.
    by: a field of the rows ("category", "lang_pair", "image_id"); the value is then the mean of its groups' values.
    expect: how many points, pairs or systems there must be; None accepts any number.
    seed: of drawn references and random ties.
    """

    name: str
    judgments: str = "human"
    leave_out: tuple[str, ...] = ()
    references: str = "all"
    ratings: str = "flatten"
    statistic: str = "tau-b"
    ties: str = "half"
    by: str | None = None
    expect: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for value in self.leave_out:
            _known("leave_out", value, LEAVE_OUT)
        if not re.fullmatch(r"(draw|first)-[1-9]\d*", self.references):
            _known("references", self.references, REFERENCES)
        _known("ratings", self.ratings, RATINGS)
        _known("statistic", self.statistic, STATISTICS)
        _known("ties", self.ties, TIES)

    def __str__(self) -> str:
        fields = {
            "judgments": self.judgments,
            "leave_out": "+".join(self.leave_out) or "none",
            "references": self.references,
            "ratings": self.ratings,
            "statistic": self.statistic,
        }
        if self.statistic == "accuracy":
            fields["ties"] = self.ties
            del fields["ratings"]
        fields |= {"by": self.by or "none", "expect": str(self.expect).lower()}
        if self.ties == "random" or self.references.startswith("draw-"):
            fields["seed"] = str(self.seed)
        return f"{self.name}({','.join(f'{key}={value}' for key, value in fields.items())})"

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
    values: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in Protocol.__dataclass_fields__ or key == "name":
            usable = [name for name in Protocol.__dataclass_fields__ if name != "name"]
            raise InputError(f"cannot read {part!r} of a protocol; expected field=value with a field of {usable}")
        if key in ("expect", "seed"):
            number = value.replace("_", "")
            if number.lower() != "none" and not number.isdigit():
                raise InputError(f"{key}={value} of a protocol is not a whole number")
            values[key] = None if number.lower() == "none" else int(number)
        elif key == "leave_out":
            values[key] = () if value == "none" else tuple(value.split("+"))
        else:
            values[key] = None if key == "by" and value == "none" else value
    return replace(protocol, **values)  # type: ignore[arg-type]


def split(text: str) -> tuple[str, str]:
    """A protocol's text as its name and what stands in its brackets."""
    match = re.fullmatch(r"\s*([\w.-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        raise InputError(f"{text!r} is not a protocol; expected a name such as clipscore2021, or name(field=value,…)")
    return match.group(1), match.group(2) or ""


def _known(field: str, value: str, known: object) -> None:
    names = list(known)  # type: ignore[call-overload]
    if value not in names:
        raise InputError(f"{field}={value!r} of a protocol is unknown; expected one of {', '.join(names)}")
