"""The vocabulary of the scene-graph decoder: closed-vocabulary tokens, and words copied from the sentence.

The vocabulary holds special tokens, frequent predicates, and words that annotators write although the caption does not
have them ("2" for "two", "wooden" for "wood"). Every other word is copied, as it is or as a verb in its base form. The
ids of words outside the vocabulary follow the vocabulary's last: they are the positions of their first occurrences in
the list of the sentence's n words and their n base forms.

>>> vocabulary = DecoderVocabulary([*SPECIAL_TOKENS, "dog"])
>>> source = vocabulary.source_tokens(["a", "dog", "ran"], ["a", "dog", "run"])
>>> source.ids, vocabulary.ids(["dog", "a", VERB + "run", "cat"], source)
([7, 6, 9, 10, 11, 12], [6, 7, 12, 2])
>>> vocabulary.texts([6, 9], source)
['dog', 'ran']
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capmeter.text.scene_graphs.triples import CLOSE, NEXT, OPEN, PREDICATE, VERB

PAD, STOP, UNKNOWN = "<nothing>", "<stop>", "<other>"
SPECIAL_TOKENS = (PAD, STOP, UNKNOWN, NEXT, OPEN, CLOSE)  # the first tokens
PAD_ID, STOP_ID, UNKNOWN_ID, NEXT_ID, OPEN_ID, CLOSE_ID = range(len(SPECIAL_TOKENS))


@dataclass(frozen=True, eq=False)
class SourceTokens:
    """The tokens that can be copied from a sentence of n words."""

    texts: list[str]  # (2n): its words in lower case, then their base forms as verbs, each after `VERB`
    ids: list[int]  # (2n)


class DecoderVocabulary:
    """Ids of tokens.

    Args:
        tokens: `SPECIAL_TOKENS` first; predicates begin with `PREDICATE`.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(f"expected tokens that begin with {SPECIAL_TOKENS}")
        self.tokens = tuple(tokens)
        self._ids = {token: token_id for token_id, token in enumerate(self.tokens)}
        self.predicates = frozenset(token[1:] for token in self.tokens if token.startswith(PREDICATE))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def predicate_end_ids(self) -> list[int]:
        """The ids of the tokens that end a predicate, after which the object begins."""
        return [CLOSE_ID, *(token_id for token, token_id in self._ids.items() if token.startswith(PREDICATE))]

    def source_tokens(self, words: Sequence[str], lemmas: Sequence[str]) -> SourceTokens:
        """Returns the tokens that can be copied from a sentence.

        Args:
            words: its words.
            lemmas: their base forms as if they were verbs.
        """
        token_texts = [*map(str.lower, words), *map(VERB.__add__, lemmas)]
        first_ids = {text: len(self) + token_index for token_index, text in reversed(list(enumerate(token_texts)))}
        known_ids = self._ids
        token_ids = [known_ids[text] if text in known_ids else first_ids[text] for text in token_texts]
        return SourceTokens(token_texts, token_ids)

    def ids(self, tokens: Sequence[str], source: SourceTokens) -> list[int]:
        """Returns the ids of tokens; `UNKNOWN_ID` for those outside the vocabulary and the sentence."""
        copied_ids = dict(zip(source.texts, source.ids, strict=True))
        return [self._ids.get(token, copied_ids.get(token, UNKNOWN_ID)) for token in tokens]

    def texts(self, ids: Sequence[int], source: SourceTokens) -> list[str]:
        """Returns the tokens with these ids."""
        size = len(self)
        return [self.tokens[token_id] if token_id < size else source.texts[token_id - size] for token_id in ids]
