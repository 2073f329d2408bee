"""CLAIR, and the judge whose question is a file. Each is a task file (`capmeter/data/prompts`) with a few parameters.

CLAIR (Chan et al. 2023): how likely a caption describes the same image as the references.

    score = the model's number of 0 to 100, divided by 100

Range 0 to 1. The prompt, and how the number is extracted from the answer, are the released code's; that code gives 0 if
there is none, here such captions are listed and have no score. Servers, keys: docs/judges.md.

A task of your own, or one of a package, is `judge(task="colours.yaml",model=M)`. Papers' protocols of several
questions are in capmeter-research.

>>> str(Clair(model="gpt-4o-mini")), str(OwnJudge(model="m", task="colours.yaml"))
('clair(model=gpt-4o-mini)', 'judge(model=m,task=colours.yaml)')

Chan, Petryk, Gonzalez, Darrell, Canny: CLAIR: Evaluating Image Captions with Large Language Models. EMNLP 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from capmeter.metrics.judges.judge import Judge


@dataclass(frozen=True, kw_only=True)
class Clair(Judge):
    """A language model's judgment whether caption and references describe one image."""

    NAME: ClassVar[str] = "clair"
    SUMMARY: ClassVar[str] = "a language model's judgment of the same image"
    FORMULA: ClassVar[tuple[str, ...]] = (r"\text{score} = \frac{\text{the model's number from 0 to 100}}{100}",)


@dataclass(frozen=True, kw_only=True)
class FileJudge(Judge):
    """A judge that may ask the questions of a file."""

    questions: Annotated[str, "the file of questions, facts or events; see docs/judges.md"] = ""


@dataclass(frozen=True, kw_only=True)
class OwnJudge(FileJudge):
    """A judge whose task is a YAML file: a user's own, or one of a package."""

    NAME: ClassVar[str] = "judge"
    SUMMARY: ClassVar[str] = "a language model's answers to your own questions"

    task: Annotated[str, "the YAML file of the task, or the name of one in a package"]
    image: Annotated[bool, "show the image too"] = False

    @property
    def task_name(self) -> str:
        """The task in the file."""
        return self.task

    @property
    def needs(self) -> frozenset[str]:
        """What the task declares, and the image if it is shown."""
        return super().needs | ({"image"} if self.image else set())
