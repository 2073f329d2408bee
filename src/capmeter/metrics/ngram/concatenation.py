"""All references of a caption as one text: the baseline for methods that combine references (Yi et al. 2020).

`references=each` compares a candidate with each reference; `references=cat` with their concatenation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.text.tokenization.token_tables import Tokens, TokenTable

References = Annotated[Literal["each", "cat"], "compare with each reference, or with all joined into one text"]


@dataclass(frozen=True)
class Concatenated:
    """Analysis: the captions, tokenised, each with the concatenation of its references as its only reference.

    Sentences of the result are tokens separated by single spaces, for the tokenizer `whitespace`.
    """

    tokenizer: str = "ptb"

    def compute(self, captions: CaptionSet) -> CaptionSet:
        """The concatenated set; a reference without tokens adds nothing."""
        token_table: TokenTable = captions.pool.analyse(Tokens(self.tokenizer))
        texts = [" ".join(token_table.row(sentence_index)) for sentence_index in range(len(captions.pool))]
        return CaptionSet.from_captions(
            Caption(
                id=captions.ids[caption_index],
                image_id=captions.image_ids[caption_index],
                candidate=texts[int(captions.candidates[caption_index])],
                references=(" ".join(texts[k] for k in captions.references[caption_index].tolist() if texts[k]),),
            )
            for caption_index in range(len(captions))
        )


def select_references(captions: CaptionSet, references: str, tokenizer: str) -> tuple[CaptionSet, str]:
    """The captions as a metric with this `references` parameter compares them, and their tokenizer."""
    if references == "each":
        return captions, tokenizer
    joined: CaptionSet = captions.analyse(Concatenated(tokenizer))
    return joined, "whitespace"
