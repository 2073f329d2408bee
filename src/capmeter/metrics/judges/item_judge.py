"""The base of judges that read questions, facts or events of images from a benchmark's file."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names, shorten
from capmeter.evaluation.base import CorpusState, Floats, RunContext
from capmeter.metrics.judges.items import QUESTION, Item, ItemFile, UsedEntries, read_items
from capmeter.metrics.judges.judge import NO_QUESTIONS, Judge


@dataclass(frozen=True, kw_only=True)
class ItemJudge(Judge):
    """A judge with a file of questions, facts or events."""

    KINDS: ClassVar[frozenset[str]] = frozenset({QUESTION})  # of the items that it reads
    EXPECTED: ClassVar[str] = "questions of images"  # what they are, for messages
    NO_ITEMS: ClassVar[str] = NO_QUESTIONS  # why a caption has no score if the file has none of its image

    questions: Annotated[str, "the file of questions, facts or events; see docs/judges.md"] = ""

    @property
    def needs(self) -> frozenset[str]:
        """Nothing but the caption."""
        return frozenset()

    @property
    def item_file(self) -> ItemFile:
        """The questions.

        Raises:
            InputError: no file is named, it is malformed, or it is of another judge.
        """
        if not self.questions:
            raise InputError(
                f'{self.name} needs a file of questions: {self.name}(model=…,questions="FILE"); see docs/judges.md'
            )
        return _select_items(type(self), read_items(self.questions))

    @classmethod
    def item_problem(cls, item: Item) -> str:
        """Why an item of the right kind cannot be used, as the end of a sentence about it; empty if it can."""
        return ""

    def corpus_state(self) -> CorpusState | None:
        """Which image each entry is asked about: in the whole run, no two share one."""
        return EntryState(self) if self.questions else None

    def check_sums(self, sums: Floats, count: int, notes: Mapping[str, int]) -> None:
        """Also names images of the file if it has those of none of the captions."""
        try:
            super().check_sums(sums, count, notes)
        except InputError as error:
            if self.questions and self.NO_ITEMS in notes:
                image_names = list_names([shorten(image) for image in self.item_file.by_image], 3)
                raise InputError(f"{error}; images of {self.questions}: {image_names}") from None
            raise

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """Also the hash of the file."""
        facts = super().signature_facts(context)
        return facts | {"file": self.item_file.sha256[:8]} if self.questions else facts


@dataclass(frozen=True)
class EntryState(CorpusState):
    """The images that the entries of a judge's file are asked about."""

    AFFECTS_SCORES: ClassVar[bool] = False
    judge: ItemJudge

    def collect(self, part: CaptionSet, context: RunContext) -> UsedEntries:
        """The entries of one part; an `InputError` if two images fit one of them."""
        return self.judge.item_file.used_entries(part.image_ids)


@functools.lru_cache(maxsize=8)
def _select_items(judge_class: type[ItemJudge], file: ItemFile) -> ItemFile:
    """The items of a file that a judge reads.

    Raises:
        InputError: there are none, or one cannot be used.
    """
    all_items = file.by_image
    selected_items = {
        image_name: tuple(each for each in all_items[image_name] if each.kind in judge_class.KINDS)
        for image_name in all_items
    }
    if not any(selected_items.values()):
        item_kinds = " and ".join(sorted({f"{each.kind}s" for items in all_items.values() for each in items}))
        raise InputError(
            f"{file.path}: has {item_kinds}, but {judge_class.NAME} reads {judge_class.EXPECTED}; "
            "see docs/judges.md for the layouts"
        )
    for image_name, items in selected_items.items():
        for item in items:
            if problem := judge_class.item_problem(item):
                raise InputError(f"{file.path}, image {image_name!a}: the {item.kind} {shorten(item.text)} {problem}")
    return replace(file, by_image={image_name: items for image_name, items in selected_items.items() if items})
