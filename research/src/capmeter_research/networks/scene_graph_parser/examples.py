"""Captions with scene graphs: FACTUAL's, written by annotators, and those that SPICE's rules extract from parses.

A row of `factual_scene_graphs.jsonl.gz` is `{"caption", "graph": [[subject, predicate, object] | [entity]], "split"}`,
`split` train or dev. One of `HELD_OUT` training captions, chosen by the hash of its text, is never trained on: these
captions select the epoch, and dev is only for evaluation.

Triples that SPICE's rules extract from a parse follow other conventions, but they supervise attachment.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from capmeter.core.errors import InputError
from capmeter.text.parsing.dependency_parse import CaptionParse
from capmeter.text.scene_graphs.rules import extract_tuples
from capmeter_research.common.parsed_captions import ParsedCaption, read_json_rows
from capmeter_research.networks.scene_graph_parser.factual_parser import Spelling, caption_words
from capmeter_research.networks.scene_graph_parser.triples import IS, Triple, drop_redundant_entities, is_triple

HELD_OUT = 40
PARSED_CAPTIONS = 40_000
_UNDAMAGED_FORMS = ("as written", "lower")
_MAX_PARSED_WORDS = 30
_NOUN_PREFIX = "N"  # of tags


@dataclass(frozen=True)
class SceneGraphExample:
    """A caption with the triples of its scene graph. split: `train`, `dev` or `parsed`."""

    caption: str
    triples: tuple[Triple, ...]
    split: str = "train"

    @property
    def held_out(self) -> bool:
        """Whether it is a training caption that is held out for model selection."""
        digest = hashlib.sha256(" ".join(caption_words(self.caption)).encode()).hexdigest()
        return self.split == "train" and int(digest, 16) % HELD_OUT == 0


def read_factual(path: Path) -> list[SceneGraphExample]:
    """The captions of a file, in its order.

    Raises:
        InputError: the file cannot be read, or a line is not a caption with a graph.
    """
    examples = []
    for line_number, caption_row in read_json_rows(path, "captions with graphs"):
        try:
            triples = tuple(tuple(" ".join(part.lower().split()) for part in triple) for triple in caption_row["graph"])
            if not triples or not all(map(is_triple, triples)):
                raise ValueError('"graph" is a list of [subject, predicate, object] and [entity]')
            if not isinstance(caption_row["caption"], str):
                raise TypeError('"caption" is a text')
            examples.append(SceneGraphExample(caption_row["caption"], triples, caption_row["split"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}, line {line_number}: not a caption with a scene graph: {error!r}") from error
    return examples


def sample_parsed_examples(captions: Iterable[ParsedCaption], count: int = PARSED_CAPTIONS) -> list[SceneGraphExample]:
    """A fixed sample of `count` captions with the triples of their parses, without long and empty ones."""
    undamaged = [caption for caption in captions if caption.form in _UNDAMAGED_FORMS]
    random.Random(0).shuffle(undamaged)
    short_captions = [each for each in undamaged[:count] if sum(map(len, each.parse.sentences)) <= _MAX_PARSED_WORDS]
    examples = [SceneGraphExample(each.caption, triples_from_parse(each.parse), "parsed") for each in short_captions]
    return [example for example in examples if example.triples]


def triples_from_parse(parse: CaptionParse) -> tuple[Triple, ...]:
    """The triples that SPICE's rules extract from a parse; nouns are as in the caption.

    >>> from capmeter.text.parsing.dependency_parse import Parse
    >>> words, tags, lemmas = ("Two", "red", "birds"), ("CD", "JJ", "NNS"), ("two", "red", "bird")
    >>> triples_from_parse(CaptionParse((Parse(words, tags, lemmas, (3, 3, 0), ("nummod", "amod", "root")),)))
    (('birds', 'is', 'red'), ('birds', 'is', 'two'))
    """
    noun_forms: dict[str, str] = {}
    for sentence in parse.sentences:
        for word, tag, lemma in zip(sentence.words, sentence.tags, sentence.lemmas, strict=True):
            if tag.startswith(_NOUN_PREFIX):
                noun_forms.setdefault(lemma, word.lower())

    def inflect(lemmas: str) -> str:
        return " ".join(noun_forms.get(lemma, lemma) for lemma in lemmas.split())

    triples: list[Triple] = []
    for entity, *other_parts in extract_tuples(parse):
        if len(other_parts) == 2:
            triples.append((inflect(entity), other_parts[1], inflect(other_parts[0])))
        else:
            triples.append((inflect(entity), IS, other_parts[0]) if other_parts else (inflect(entity),))
    spaced_triples = [tuple(part.replace("_", " ") for part in triple) for triple in triples if all(triple)]
    return tuple(drop_redundant_entities(spaced_triples))


def name_as_in_caption(
    example: SceneGraphExample, spelling: Spelling, base_form: Callable[[str], str]
) -> SceneGraphExample:
    """The example with its entities named as in the caption: "boats next to boats" for "boat next to boat".

    Only words of the caption can be copied. Without this, a singular whose plural alone is in the caption could be
    learned only if it is in the vocabulary.

    Args:
        example: a caption with triples.
        spelling: corrects the caption's words.
        base_form: of a noun.
    """
    words = spelling.correct(caption_words(example.caption))
    word_by_base: dict[str, str] = {}
    for word in words:
        word_by_base.setdefault(base_form(word), word)

    def name(entity: str) -> str:
        return " ".join(word if word in words else word_by_base.get(base_form(word), word) for word in entity.split())

    triples = tuple((name(triple[0]), *triple[1:-1], *map(name, triple[1:][-1:])) for triple in example.triples)
    return replace(example, triples=triples)
