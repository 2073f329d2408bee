"""The base of judges that read questions, facts or events of images from a benchmark's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from capmeter.core.errors import InputError
from capmeter.evaluation.base import RunContext
from capmeter.metrics.judges.items import ItemFile, read_items
from capmeter.metrics.judges.judge import Judge


@dataclass(frozen=True, kw_only=True)
class ItemJudge(Judge):
    """A judge with a file of questions, facts or events."""

    questions: Annotated[str, "the file of questions, facts or events; see docs/judges.md"] = ""

    @property
    def needs(self) -> frozenset[str]:
        """Nothing but the caption."""
        return frozenset()

    @property
    def item_file(self) -> ItemFile:
        """The questions.

        Raises:
            InputError: no file is named, or it is malformed.
        """
        if not self.questions:
            raise InputError(
                f'{self.name} needs a file of questions: {self.name}(model=…,questions="FILE"); see docs/judges.md'
            )
        return read_items(self.questions)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """Also the hash of the file."""
        facts = super().signature_facts(context)
        return facts | {"file": self.item_file.sha256[:8]} if self.questions else facts
