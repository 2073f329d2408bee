"""How a writer writes: what it reads, through which weights, and how it chooses its words; a named value.

>>> str(WriterSystem(strength="300", decode="sample", temperature=0.9))
'writer(strength=300,decode=sample,temperature=0.9)'
>>> parse_writing("writer(near=0.3)").near
0.3
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from capmeter.core.errors import InputError
from capmeter.core.named import Named, read_parameters, split_name
from capmeter_research.networks.caption_writer.reading import FORMS, InputCorruption

KIND = "writer"
FINAL = "final"


@dataclass(frozen=True, kw_only=True)
class WriterSystem(Named):
    """How captions are written.

    The errors that each parameter brings: few steps (`strength`): broken and repetitive sentences; `kept` below 1:
    things are missing, and others are guessed; `form` words or nouns: wrong attributes, numbers, actions and relations;
    `near`: things that are in similar photos only; `noise`: things that are anywhere; greedy and beam search: generic
    sentences; sampling: unusual ones.

    Raises:
        InputError: a parameter is out of range.
    """

    NAME = KIND
    SUMMARY = "captions by the caption writer"

    strength: Annotated[str, "the number of training steps of the weights, or final"] = FINAL
    form: Annotated[Literal["captions", "words", "nouns"], "what is read of the captions"] = "words"
    read: Annotated[int, "how many of the photo's captions are read"] = 1
    kept: Annotated[float, "the share of words that are read"] = 1.0
    near: Annotated[float, "the share of words that come from a caption of a similar photo"] = 0.0
    noise: Annotated[float, "the share of words that are taken for any other word"] = 0.0
    decode: Annotated[Literal["greedy", "beam", "sample"], "how words are chosen"] = "greedy"
    beams: Annotated[int, "the width of beam search"] = 5
    temperature: Annotated[float, "the temperature of sampling"] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for parameter_name in ("kept", "near", "noise"):
            if not 0 <= getattr(self, parameter_name) <= 1:
                raise InputError(f"writer: {parameter_name}={getattr(self, parameter_name)} is not a share from 0 to 1")
        for parameter_name in ("read", "beams"):
            if getattr(self, parameter_name) < 1:
                raise InputError(f"writer: {parameter_name}={getattr(self, parameter_name)}, expected 1 or more")
        if self.temperature <= 0:
            raise InputError(
                f"writer: temperature={self.temperature}, expected more than 0 (decode=greedy is its limit)"
            )
        if not self.strength.isalnum():
            raise InputError(f"writer: strength={self.strength!r}, expected a number of steps, or {FINAL}")

    def sight(self, photos: int) -> InputCorruption:
        """The input corruption of each photo."""

        def all_of(share: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
            return np.full(photos, share)

        form = np.full(photos, FORMS.index(self.form), np.int64)
        return InputCorruption(form, all_of(self.kept), all_of(self.near), all_of(self.noise))


SYSTEMS: dict[str, WriterSystem] = {
    "writer-300": WriterSystem(strength="300"),
    "writer-1000": WriterSystem(strength="1000"),
    "writer-final-greedy": WriterSystem(kept=0.8),
    "writer-final-beam": WriterSystem(decode="beam", beams=3),
    "writer-final-sample0.5": WriterSystem(decode="sample", temperature=0.5, kept=0.8),
    "writer-final-sample0.9": WriterSystem(decode="sample", temperature=0.9),
    "writer-final-nouns": WriterSystem(form="nouns", kept=0.8, near=0.2),
    "writer-final-near": WriterSystem(near=0.5),
}
"""The systems whose captions stand for machine captions in training."""


def parse_writing(text: str) -> WriterSystem:
    """The value that a text form such as `writer(decode=beam)` names.

    Raises:
        InputError: the text has another name, or a parameter is unknown or out of range.
    """
    writer_name, parameter_text = split_name(text, "way of writing")
    if writer_name != WriterSystem.NAME:
        raise InputError(f"{text!r}: expected {WriterSystem.NAME}, or {WriterSystem.NAME}(parameter=value,…)")
    return WriterSystem(**read_parameters(WriterSystem, parameter_text, writer_name))


def named_systems(texts: Iterable[str]) -> dict[str, WriterSystem]:
    """The systems of texts such as `brief=writer(decode=beam)`; `SYSTEMS` if there is no text.

    Raises:
        InputError: a text cannot be read, or a name occurs twice.
    """
    systems: dict[str, WriterSystem] = {}
    for text in texts:
        system_name, equals, writing = text.partition("=")
        if not equals or not system_name.strip() or "(" in system_name:
            raise InputError(f"{text!r}: expected NAME=WRITING, such as brief=writer(decode=beam)")
        if system_name in systems:
            raise InputError(f"{text!r}: duplicate name {system_name!r}; name each system differently")
        systems[system_name] = parse_writing(writing)
    return systems or dict(SYSTEMS)
