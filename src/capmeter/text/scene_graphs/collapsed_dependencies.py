"""Collapses basic dependencies and propagates conjunctions, as Stanford CoreNLP 3.6 does.

Prepositions move into labels ("nmod:in_front_of"), conjunctions too ("conj:and"), and what governs the first conjunct
governs the others. Relative pronouns and subjects of open complements are unchanged.

>>> from capmeter.text.parsing.dependency_parse import Parse
>>> words, tags = ("dogs", "and", "cats", "run"), ("NNS", "CC", "NNS", "VBP")
>>> parse = Parse(words, tags, ("dog", "and", "cat", "run"), (4, 1, 1, 0), ("nsubj", "cc", "conj", "root"))
>>> graph = collapse_dependencies(parse)
>>> graph.children(4), graph.children(1)
([(1, 'nsubj'), (3, 'nsubj')], [(2, 'cc'), (3, 'conj:and')])

Prepositions of two and three words become one: "in front of", "next to", "out of".

The words become one group, the first a `case` of the noun and the others `mwe` of the first. Groups are searched
among neighbouring words, list by list, so that the earlier entry wins if two overlap.
"""

from __future__ import annotations

from itertools import pairwise

from capmeter.text.parsing.dependency_parse import DependencyGraph, Parse

# "next" beside "to", both dependents of the noun
_TWO_BESIDE = (  # noqa: SIM905
    "across from,along with,alongside of,apart from,as for,as from,as of,as per,as to,aside from,based on,close by,"
    "close to,contrary to,compared to,compared with,except for,exclusive of,far from,followed by,inside of,"
    "irrespective of,next to,near to,off of,out of,outside of,owing to,preliminary to,preparatory to,previous to,"
    "pursuant to,regardless of,subsequent to,thanks to,together with"
).split(",")

# "next" governing the noun that "to" belongs to
_TWO_ABOVE = (  # noqa: SIM905
    "apart from,as from,aside from,away from,close by,close to,contrary to,far from,next to,near to,out of,outside of,"
    "pursuant to,regardless of,together with"
).split(",")

_THREE = (  # noqa: SIM905
    "by means of,in accordance with,in addition to,in case of,in front of,in lieu of,in place of,in spite of,"
    "on account of,on behalf of,on top of,with regard to,with respect to"
).split(",")

_STARTS = {tuple(phrase.split()[:2]) for phrase in (*_TWO_BESIDE, *_TWO_ABOVE, *_THREE)}
_CLAUSES = frozenset("conj xcomp ccomp acl advcl acl:relcl parataxis appos list".split())  # noqa: SIM905


def _join_prepositions(graph: DependencyGraph) -> None:
    """Rewrites every preposition of several words in a tree."""
    lower_words = [word.lower() for word in graph.words]
    word_pairs = list(pairwise(lower_words))
    if _STARTS.isdisjoint(word_pairs):
        return
    phrase_positions: dict[str, list[int]] = {}
    for phrase_start, (first_word, second_word) in enumerate(word_pairs):
        phrase_positions.setdefault(f"{first_word} {second_word}", []).append(phrase_start)
        if phrase_start + 2 < len(lower_words):
            phrase_positions.setdefault(f"{first_word} {second_word} {lower_words[phrase_start + 2]}", []).append(
                phrase_start
            )
    for phrases, join_phrase in ((_TWO_BESIDE, _join_beside), (_TWO_ABOVE, _join_above), (_THREE, _join_three)):
        for phrase in phrases:
            for phrase_start in phrase_positions.get(phrase, ()):
                join_phrase(graph, phrase_start)


def _join_beside(graph: DependencyGraph, first_word: int) -> None:
    """Two dependents of one noun: (noun → next, noun → to) becomes (noun → next → to)."""
    second_word = first_word + 1
    if not (graph.leaf(first_word) and graph.leaf(second_word)):
        return
    for governor, label in graph.governors[first_word]:
        if label in ("case", "advmod") and (governor, "case") in graph.governors[second_word]:
            _group(graph, governor, "case", (first_word, second_word))
            return


def _join_above(graph: DependencyGraph, first_word: int) -> None:
    """A first word that governs the noun: (x → out → surf → of) becomes (x → surf → out → of)."""
    second_word = first_word + 1
    for noun, label in graph.children(first_word):
        if label == "nmod" and (second_word, "case") in graph.dependents[noun] and graph.leaf(second_word):
            break
    else:
        return
    if first_word in graph.roots:
        graph.roots[graph.roots.index(first_word)] = noun
        graph.remove(first_word, noun, "nmod")
    else:
        (governor, noun_label) = graph.governors[first_word][0]
        graph.remove(first_word, noun, "nmod")
        graph.add(
            governor, noun, noun_label if noun_label in _CLAUSES and graph.has_child(first_word, "cop") else "nmod"
        )
    graph.move_children(first_word, noun)
    _group(graph, noun, "case", (first_word, second_word))


def _join_three(graph: DependencyGraph, first_word: int) -> None:
    """(x → front → in, front → house → of) becomes (x → house → in → front, of)."""
    second_word, third_word = first_word + 1, first_word + 2
    if (first_word, "case") not in graph.dependents[second_word] or not (
        graph.leaf(first_word) and graph.leaf(third_word)
    ):
        return
    for noun, label in graph.children(second_word):
        marker_labels = [child_label for word, child_label in graph.dependents[noun] if word == third_word]
        if label in ("nmod", "acl", "advcl") and marker_labels and marker_labels[0] in ("case", "mark"):
            break
    else:
        return
    marker = "case"
    if second_word in graph.roots:
        graph.roots[graph.roots.index(second_word)] = noun
        graph.remove(second_word, noun, label)
    else:
        (governor, noun_label) = graph.governors[second_word][0]
        graph.remove(second_word, noun, label)
        if noun_label == "nmod" and label != "nmod":
            noun_label, marker = label, "mark"
        graph.add(governor, noun, noun_label)
    graph.move_children(second_word, noun)
    _group(graph, noun, marker, (first_word, second_word, third_word))


def _group(graph: DependencyGraph, governor: int, label: str, words: tuple[int, ...]) -> None:
    """Attaches the first of some words to a governor, and the others to the first as one multi-word expression."""
    for word in words:
        graph.detach(word)
    graph.add(governor, words[0], label)
    for word in words[1:]:
        graph.add(words[0], word, "mwe")


_MODIFIERS = ("nmod", "acl", "advcl")
_SUBJECTS = {"nsubj": "nsubjpass", "csubj": "csubjpass"}
_ACTIVE = {passive: active for active, passive in _SUBJECTS.items()}
_ANY_SUBJECT = frozenset((*_SUBJECTS, *_ACTIVE))
_CONJUNCTIONS = {
    **dict.fromkeys([("but", "rather"), ("if", "not"), ("instead", "of"), ("rather", "than")], "negcc"),
    **dict.fromkeys([("but", "also"), ("as", "well")], "and"),
}


def collapse_dependencies(parse: Parse, sentence: int = 0) -> DependencyGraph:
    """The collapsed graph of a parse, which is sentence number `sentence` of its caption."""
    graph = DependencyGraph(parse, sentence)
    labels = set(parse.labels)
    if "auxpass" in labels:
        _make_subjects_passive(graph)
    _join_prepositions(graph)
    coordinated = "cc" in labels and "conj" in labels
    if coordinated:
        _copy_for_conjoined_phrases(graph)
        _copy_for_conjoined_prepositions(graph)
    if "case" in labels:
        if "auxpass" in labels:
            _label_agents(graph)
        _label_modifiers(graph)
    if coordinated:
        _label_conjuncts(graph)
    if "conj" in labels:
        _propagate(graph)
    return graph


def _make_subjects_passive(graph: DependencyGraph) -> None:
    """The subject of a verb with a passive auxiliary is a passive subject."""
    for verb in range(1, len(graph)):
        if graph.has_child(verb, "auxpass"):
            for subject, label in list(graph.dependents[verb]):
                if label in _SUBJECTS:
                    graph.relabel(verb, subject, label, _SUBJECTS[label])


def _coordinations(graph: DependencyGraph, governor: int) -> list[tuple[int, list[int]]]:
    """Each coordinating word of a governor, with all its conjuncts that have no conjunction yet."""
    edges = graph.children(governor)
    conjuncts = [word for word, label in edges if label == "conj"]
    return [(word, conjuncts) for word, label in edges if label == "cc"] if conjuncts else []


def _coordinated(graph: DependencyGraph) -> list[int]:
    """The words that have both a coordinating word and a conjunct."""
    return [word for word in range(1, len(graph)) if graph.has_child(word, "cc") and graph.has_child(word, "conj")]


def _in_order(graph: DependencyGraph, words: list[int]) -> list[int]:
    """Some words in the order in which the graph is read."""
    chosen_words = set(words)
    return [word for word in graph.nodes() if word in chosen_words] if len(chosen_words) > 1 else list(chosen_words)


def _copy_for_conjoined_phrases(graph: DependencyGraph) -> None:
    """ "slides down a slide and into the water": the second phrase depends on a copy of the verb."""
    conjoined_phrases = []
    for noun in _in_order(graph, [word for word in _coordinated(graph) if graph.has_child(word, "case")]):
        if any(label in _MODIFIERS for _, label in graph.governors[noun]):
            for conjunction, conjuncts in _coordinations(graph, noun):
                conjoined_phrases.append(
                    (noun, conjunction, [word for word in conjuncts if graph.has_child(word, "case")])
                )
    for noun, conjunction, conjuncts in conjoined_phrases:
        parent_edge = graph.parent(noun)
        if parent_edge is None or not conjuncts:
            continue
        governor, label = parent_edge
        governor_copies = []
        for conjunct in conjuncts:
            governor_copies.append(governor_copy := graph.copy_of(governor))
            if (conjunct, "conj") in graph.dependents[noun]:
                graph.remove(noun, conjunct, "conj")
                graph.add(governor_copy, conjunct, label)
            graph.add(governor, governor_copy, "conj")
        graph.remove(noun, conjunction, "cc")
        graph.add(governor, conjunction, "cc")
        _conjoin(graph, governor, governor_copies, conjunction)


def _copy_for_conjoined_prepositions(graph: DependencyGraph) -> None:
    """ "on and under the table": the noun also depends, by the second preposition, on a copy of its governor."""
    conjoined_prepositions = []
    prepositions = [word for word in _coordinated(graph) if any(label == "case" for _, label in graph.governors[word])]
    for noun in _in_order(graph, [noun for word in prepositions for noun, _ in graph.governors[word]]):
        for preposition, label in graph.children(noun):
            if label == "case":
                conjoined_prepositions += [
                    (noun, preposition, *coordination) for coordination in _coordinations(graph, preposition)
                ]
    for noun, preposition, conjunction, conjuncts in conjoined_prepositions:
        parent_edge = graph.parent(noun)
        if parent_edge is None:
            continue
        governor, label = parent_edge
        governor_copies = []
        for conjunct in conjuncts:
            governor_copies.append(governor_copy := graph.copy_of(governor))
            graph.add(governor, governor_copy, "conj")
            graph.add(governor_copy, noun, _marked(label, graph.words[conjunct].lower()))
        _conjoin(graph, preposition, conjuncts, conjunction)
        _conjoin(graph, governor, governor_copies, conjunction)


def _label_agents(graph: DependencyGraph) -> None:
    """The agent of a passive verb: "by" makes `nmod:agent`."""
    for verb in range(1, len(graph)):
        if graph.has_child(verb, "auxpass"):
            for noun, label in list(graph.dependents[verb]):
                case_words = [word for word, child_label in graph.dependents[noun] if child_label == "case"]
                if label == "nmod" and any(graph.words[word].lower() == "by" for word in case_words):
                    graph.relabel(verb, noun, label, "nmod:agent")


def _label_modifiers(graph: DependencyGraph) -> None:
    """A modifier's label takes on its preposition: the longest, or the last of several single words."""
    for noun in range(1, len(graph)):
        if not graph.has_child(noun, "case"):
            continue
        case_words = [word for word, label in graph.children(noun) if label == "case"]
        modified_edges = [edge for edge in graph.governors[noun] if edge[1] in _MODIFIERS]
        if len(case_words) == 1 and graph.leaf(case_words[0]):
            for governor, label in modified_edges:
                graph.relabel(governor, noun, label, _marked(label, graph.words[case_words[0]].lower()))
            continue
        word_groups = [sorted([case, *_expression(graph, case)], key=graph.position.__getitem__) for case in case_words]
        longest_length = max(map(len, word_groups))
        longest_group = next(word_group for word_group in reversed(word_groups) if len(word_group) == longest_length)
        for governor, label in modified_edges:
            word_runs = _runs(graph, longest_group)
            graph.relabel(governor, noun, label, _marked(label, word_runs[-1]))
            for word_run in word_runs[:-1]:  # separate words give an edge each
                graph.add(governor, noun, _marked(label, word_run))


def _expression(graph: DependencyGraph, case: int) -> list[int]:
    """The other words of a preposition, two at most."""
    return [word for word, label in graph.children(case) if label == "mwe"][:2]


def _runs(graph: DependencyGraph, words: list[int]) -> list[str]:
    """Neighbouring words joined by "_"."""
    word_runs: list[list[int]] = []
    for word in words:
        if word_runs and graph.position[word] == graph.position[word_runs[-1][-1]] + 1:
            word_runs[-1].append(word)
        else:
            word_runs.append([word])
    return ["_".join(graph.words[word] for word in word_run).lower() for word_run in word_runs]


def _marked(label: str, preposition: str) -> str:
    """A modifier's label with a preposition; other labels have none."""
    label_kind = label.partition(":")[0]
    return f"{label_kind}:{preposition}" if label_kind in _MODIFIERS else label


def _label_conjuncts(graph: DependencyGraph) -> None:
    """ "conj" becomes "conj:and": by the first coordinating word, or by a later one that stands before the conjunct."""
    for governor in _coordinated(graph):
        coordinations = _coordinations(graph, governor)
        for conjunct in coordinations[0][1]:
            conjunct_position = graph.position[conjunct]
            earlier_words = [word for word, _ in coordinations if graph.position[word] < conjunct_position]
            conjunction = earlier_words[-1] if earlier_words else coordinations[0][0]
            graph.relabel(governor, conjunct, "conj", f"conj:{_conjunction(graph, conjunction)}")


def _conjoin(graph: DependencyGraph, governor: int, conjuncts: list[int], conjunction: int) -> None:
    conjunct_label = f"conj:{_conjunction(graph, conjunction)}"
    for conjunct in conjuncts:
        old_label = next((child_label for word, child_label in graph.dependents[governor] if word == conjunct), None)
        if old_label is not None and (old_label == "conj" or graph.position[conjunct] > graph.position[conjunction]):
            graph.relabel(governor, conjunct, old_label, conjunct_label)


def _conjunction(graph: DependencyGraph, word: int) -> str:
    """What a coordinating word means: itself, "negcc" for what excludes, "and" for what adds."""
    word_position = graph.position[word]
    word_count = graph.position[-1] if len(graph) == graph.position[-1] + 1 else max(graph.position)
    words_around = {
        k: graph.words[word_position + k].lower() for k in (-1, 0, 1, 2) if 0 < word_position + k <= word_count
    }
    if words_around[0] == "not" and words_around.get(-1) == "but":
        return "negcc"
    if words_around[0] == "not" and words_around.get(1) == "to" and words_around.get(2) == "mention":
        return "and"
    return _CONJUNCTIONS.get((words_around[0], words_around.get(1, "")), words_around[0])


def _propagate(graph: DependencyGraph) -> None:
    """What governs a conjunct governs those after it; a verb without a subject shares the first one's."""
    word_count = len(graph)
    governor_edges = [list(edges) for edges in graph.governors]
    edges = [list(graph.children(word)) for word in range(word_count)]
    subjects = [next((edge for edge in word_edges if edge[1] in _ANY_SUBJECT), None) for word_edges in edges]
    for first_word in range(1, word_count):
        for conjunct, conjunct_label in edges[first_word]:
            if not conjunct_label.startswith("conj:"):
                continue
            are_relative = graph.has_child(first_word, "acl:relcl") and graph.has_child(conjunct, "acl:relcl")
            for governor, shared in governor_edges[first_word]:
                if governor != conjunct and shared != "case" and not (are_relative and shared in ("dobj", "nsubj")):
                    graph.add(governor, conjunct, shared)
            subject = subjects[first_word]
            if subject and not subjects[conjunct] and graph.tags[conjunct].startswith(("VB", "JJ")):
                graph.add(conjunct, subject[0], _voiced(graph, conjunct, subject[1]))


def _voiced(graph: DependencyGraph, verb: int, label: str) -> str:
    """The label of a subject that a verb takes over: active or passive as the verb itself is."""
    tag = graph.tags[verb]
    if label in _ACTIVE:
        return _ACTIVE[label] if tag in ("VB", "VBZ", "VBP") or tag.startswith("JJ") else label
    return _SUBJECTS[label] if graph.has_child(verb, "auxpass") else label
