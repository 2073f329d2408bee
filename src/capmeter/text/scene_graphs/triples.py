"""Triples of scene graphs as annotators write them, and as sequences of tokens for a decoder.

A triple is (subject, predicate, object), for example ("man", "sit on", "bench"); attributes and counts have the
predicate "is": ("bench", "is", "red"), ("dogs", "is", "2"). An object without attributes and relations is an entity
alone, (entity,). Nouns are as in the caption, verbs in their base form, and passives are turned around: (water,
surround, cliff) for "cliff surrounded by water". This is the form of FACTUAL (Li et al. 2023), which calls them facts.

In the linearised form, a predicate with one of the caption's verbs is the verb's base form and the rest; another
frequent predicate is one token, a rare one its words between two marks. Triples are in the order in which the caption
mentions the words that they relate.

>>> triples = [("man", "sit on", "bench"), ("bench", "is", "red"), ("dog",)]
>>> tokens = linearise_triples(triples, "a man sits on a red bench , dog".split(), {"on", "is"}, {"sit"})
>>> " ".join(tokens).replace(PREDICATE, "_").replace(VERB, "=")
'bench _is red <fact> man =sit _on bench <fact> dog'
>>> parse_triples(tokens) == [triples[1], triples[0], triples[2]]
True

Z. Li et al. FACTUAL: A Benchmark for Faithful and Consistent Textual Scene Graph Parsing. Findings of ACL 2023.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

Triple = tuple[str, ...]

IS = "is"
NEXT, OPEN, CLOSE = "<fact>", "<predicate>", "</predicate>"
PREDICATE = "\u00b6"  # begins a token that is a predicate, or the rest of a predicate after its verb
VERB = "\u00a7"  # begins a token that is the base form of one of the caption's words: a predicate's verb
_PATTERNS = ((), (PREDICATE,), (VERB, PREDICATE), (OPEN, CLOSE))
_NOT_MENTIONED = 1 << 20


def is_triple(parts: Sequence[str]) -> bool:
    """Whether this is a subject, a predicate and an object, or an entity alone, none of them empty."""
    return len(parts) in (1, 3) and all(part.strip() for part in parts)


def linearise_triples(
    triples: Iterable[Triple], words: Sequence[str], predicates: Collection[str], verbs: Collection[str] = ()
) -> list[str]:
    """Writes distinct triples as tokens, in the order of the caption's words.

    Args:
        triples: triples and entities.
        words: the caption's words, lower case.
        predicates: those that are one token, and the rests of predicates after a verb.
        verbs: base forms of the caption's verbs.
    """
    tokens: list[str] = []
    for triple in sorted(dict.fromkeys(triples), key=lambda triple: _mention_order(triple, words)):
        if tokens:
            tokens.append(NEXT)
        tokens += triple[0].split()
        if len(triple) == 3:
            _, predicate, object_ = triple
            verb, _, predicate_rest = predicate.partition(" ")
            if verb in verbs and predicate_rest in predicates:
                tokens += [VERB + verb, PREDICATE + predicate_rest]
            elif predicate in predicates:
                tokens.append(PREDICATE + predicate)
            else:
                tokens += [OPEN, *predicate.split(), CLOSE]
            tokens += object_.split()
    return tokens


def parse_triples(tokens: Iterable[str]) -> list[Triple]:
    """Reads distinct triples from tokens; malformed ones (a predicate without an object …) are dropped."""
    triples: dict[Triple, None] = {}
    triple_parts: list[list[str]] = [[]]
    marks: list[str] = []  # of this triple

    def finish() -> None:
        triple = tuple(" ".join(part) for part in triple_parts)
        if is_triple(triple) and tuple(marks) in _PATTERNS:
            triples.setdefault(triple)

    for token in tokens:
        if token == NEXT:
            finish()
            triple_parts, marks = [[]], []
        elif token in (OPEN, CLOSE):
            triple_parts.append([])
            marks.append(token)
        elif token.startswith(VERB):
            triple_parts.append([token[1:]])
            marks.append(VERB)
        elif token.startswith(PREDICATE):
            predicate_words = token[1:].split()
            if marks == [VERB] and len(triple_parts) == 2:
                triple_parts[1] += predicate_words
                triple_parts.append([])
            else:
                triple_parts += [predicate_words, []]
            marks.append(PREDICATE)
        else:
            triple_parts[-1].append(token)
    finish()
    return list(triples)


def drop_redundant_entities(triples: Iterable[Triple]) -> list[Triple]:
    """Returns distinct triples without entities that are in another triple, as annotators write them.

    >>> drop_redundant_entities([("bus",), ("bus", "is", "red"), ("sky",), ("sky",)])
    [('bus', 'is', 'red'), ('sky',)]
    """
    distinct = list(dict.fromkeys(triples))
    mentioned_entities = {
        part
        for triple in distinct
        if len(triple) == 3
        for part in (triple[:1] if triple[1] == IS else (triple[0], triple[2]))
    }
    return [triple for triple in distinct if len(triple) == 3 or triple[0] not in mentioned_entities]


def spice_tuples(triples: Iterable[Triple]) -> set[Triple]:
    """Returns the tuples that FACTUAL's SPICE compares: (entity), (entity, attribute), (subject, predicate, object).

    >>> sorted(spice_tuples([("bus", "is", "red"), ("man", "on", "bus")]))
    [('bus',), ('bus', 'red'), ('man',), ('man', 'on', 'bus')]
    """
    scene_tuples: set[Triple] = set()
    for triple in triples:
        scene_tuples.add(triple[:1])
        if len(triple) == 3 and triple[1] == IS:
            scene_tuples.add((triple[0], triple[2]))
        elif len(triple) == 3:
            scene_tuples |= {triple, triple[2:]}
    return scene_tuples


def _mention_order(triple: Triple, words: Sequence[str]) -> tuple[int, int, Triple]:
    """Sorts by the later one of the mentions of subject and object, then the nearer pair first."""
    positions = [_find_mention(part, words) for part in (triple if len(triple) == 1 else (triple[0], triple[2]))]
    return max(positions), -min(positions), triple


def _find_mention(phrase: str, words: Sequence[str]) -> int:
    """Returns the position of the last word of a phrase in the caption, or of the first word with its beginning."""
    head_word = phrase.split()[-1]
    if head_word in words:
        return words.index(head_word)
    stem = head_word[: max(3, len(head_word) - 3)]
    return next((word_position for word_position, word in enumerate(words) if word.startswith(stem)), _NOT_MENTIONED)
