"""Facts of a caption as people write them down, and as a sequence of tokens that a decoder can write.

A fact is (subject, predicate, object), for example ("man", "sit on", "bench"); an attribute or a number has the
predicate "is" ("bench", "is", "red"), ("dogs", "is", "2"); what is only mentioned is (entity,). Nouns are as in the
caption, verbs in their base form, and a passive is turned around: (water, surround, cliff) for "cliff surrounded by
water". So FACTUAL has them (Li et al. 2023).

Written as tokens, a predicate with one of the caption's verbs is its base form and the rest; another frequent one is
one token, a rare one its words between two marks. Facts are in the order in which the caption has named what they are
about.

>>> facts = [("man", "sit on", "bench"), ("bench", "is", "red"), ("dog",)]
>>> tokens = written(facts, "a man sits on a red bench , dog".split(), {"on", "is"}, {"sit"})
>>> " ".join(tokens).replace(PREDICATE, "_").replace(VERB, "=")
'bench _is red <fact> man =sit _on bench <fact> dog'
>>> read_facts(tokens) == [facts[1], facts[0], facts[2]]
True

Z. Li et al. FACTUAL: A Benchmark for Faithful and Consistent Textual Scene Graph Parsing. Findings of ACL 2023.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

Fact = tuple[str, ...]

IS = "is"
NEXT, OPEN, CLOSE = "<fact>", "<predicate>", "</predicate>"
PREDICATE = "\u00b6"  # a token that begins with it is a whole predicate, or what follows a predicate's verb
VERB = "\u00a7"  # a token that begins with it is the base form of one of the caption's words: a predicate's verb
_PATTERNS = ((), (PREDICATE,), (VERB, PREDICATE), (OPEN, CLOSE))
_UNSEEN = 1 << 20


def is_fact(parts: Sequence[str]) -> bool:
    """Whether this is an entity, or a subject, a predicate and an object, none of them empty."""
    return len(parts) in (1, 3) and all(part.strip() for part in parts)


def written(
    facts: Iterable[Fact], words: Sequence[str], predicates: Collection[str], verbs: Collection[str] = ()
) -> list[str]:
    """The facts as tokens, each once, in the order of the caption's words.

    Args:
        facts: triples and entities.
        words: the caption's words, lower case.
        predicates: those that are one token, and what follows a verb.
        verbs: base forms of the caption's verbs.
    """
    tokens: list[str] = []
    for fact in sorted(dict.fromkeys(facts), key=lambda each: _order(each, words)):
        if tokens:
            tokens.append(NEXT)
        tokens += fact[0].split()
        if len(fact) == 3:
            _, predicate, thing = fact
            verb, _, rest = predicate.partition(" ")
            if verb in verbs and rest in predicates:
                tokens += [VERB + verb, PREDICATE + rest]
            elif predicate in predicates:
                tokens.append(PREDICATE + predicate)
            else:
                tokens += [OPEN, *predicate.split(), CLOSE]
            tokens += thing.split()
    return tokens


def read_facts(tokens: Iterable[str]) -> list[Fact]:
    """The facts that tokens say, each once; what is no fact (a predicate without an object …) is left out."""
    facts: dict[Fact, None] = {}
    parts: list[list[str]] = [[]]
    marked: list[str] = []  # of this fact

    def finish() -> None:
        fact = tuple(" ".join(part) for part in parts)
        if is_fact(fact) and tuple(marked) in _PATTERNS:
            facts.setdefault(fact)

    for token in tokens:
        if token == NEXT:
            finish()
            parts, marked = [[]], []
        elif token in (OPEN, CLOSE):
            parts.append([])
            marked.append(token)
        elif token.startswith(VERB):
            parts.append([token[1:]])
            marked.append(VERB)
        elif token.startswith(PREDICATE):
            rest = token[1:].split()
            if marked == [VERB] and len(parts) == 2:
                parts[1] += rest
                parts.append([])
            else:
                parts += [rest, []]
            marked.append(PREDICATE)
        else:
            parts[-1].append(token)
    finish()
    return list(facts)


def without_mentions(facts: Iterable[Fact]) -> list[Fact]:
    """Each fact once, without entities that another fact is about: people write an entity alone only then.

    >>> without_mentions([("bus",), ("bus", "is", "red"), ("sky",), ("sky",)])
    [('bus', 'is', 'red'), ('sky',)]
    """
    once = list(dict.fromkeys(facts))
    about = {part for fact in once if len(fact) == 3 for part in (fact[:1] if fact[1] == IS else (fact[0], fact[2]))}
    return [fact for fact in once if len(fact) == 3 or fact[0] not in about]


def tuples_of(facts: Iterable[Fact]) -> set[Fact]:
    """What FACTUAL's SPICE compares: (entity), (entity, attribute) and (subject, predicate, object).

    >>> sorted(tuples_of([("bus", "is", "red"), ("man", "on", "bus")]))
    [('bus',), ('bus', 'red'), ('man',), ('man', 'on', 'bus')]
    """
    tuples: set[Fact] = set()
    for fact in facts:
        tuples.add(fact[:1])
        if len(fact) == 3 and fact[1] == IS:
            tuples.add((fact[0], fact[2]))
        elif len(fact) == 3:
            tuples |= {fact, fact[2:]}
    return tuples


def _order(fact: Fact, words: Sequence[str]) -> tuple[int, int, Fact]:
    """By the later one of the two words that a fact is about, then the nearer pair first."""
    places = [_place(part, words) for part in (fact if len(fact) == 1 else (fact[0], fact[2]))]
    return max(places), -min(places), fact


def _place(phrase: str, words: Sequence[str]) -> int:
    """Where the caption names this: the last word of the phrase, or the first word that begins alike."""
    head = phrase.split()[-1]
    if head in words:
        return words.index(head)
    stem = head[: max(3, len(head) - 3)]
    return next((place for place, word in enumerate(words) if word.startswith(stem)), _UNSEEN)
