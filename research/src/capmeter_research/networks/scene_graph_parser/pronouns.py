"""Words of a document's sentences with pronouns replaced by the nouns that they refer to (`coreference`).

>>> from capmeter.text.parsing.dependency_parse import Parse
>>> first = Parse(("A", "dog", "runs"), ("DT", "NN", "VBZ"), ("a", "dog", "run"), (2, 3, 0), ("det", "nsubj", "root"))
>>> second = Parse(("Its", "tail", "wags"), ("PRP$", "NN", "VBZ"), ("its", "tail", "wag"), (2, 3, 0),
...     ("nmod:poss", "nsubj", "root"))
>>> [" ".join(words) for words in words_with_antecedents([first.words, second.words], [first, second])]
['a dog runs', "dog 's tail wags"]
"""

from __future__ import annotations

from collections.abc import Sequence

from capmeter.text.parsing.dependency_parse import Parse
from capmeter.text.scene_graphs.coreference import PRONOUNS, SENTENCES_BEFORE, find_antecedents

_BRACKETS = {"-lrb-": "(", "-rrb-": ")"}


def find_contexts(sentences: Sequence[Sequence[str]]) -> list[bool]:
    """Says of each sentence of a document whether it has a pronoun or may have the antecedent of one.

    >>> find_contexts([["A", "dog"], ["a", "cat"], ["grass"], ["Its", "tail"], ["a", "tree"]])
    [False, True, True, True, False]
    """
    contexts = [False] * len(sentences)
    for sentence_number, words in enumerate(sentences):
        if any(word.lower() in PRONOUNS for word in words):
            first_sentence = max(0, sentence_number - SENTENCES_BEFORE)
            contexts[first_sentence : sentence_number + 1] = [True] * (sentence_number + 1 - first_sentence)
    return contexts


def words_with_antecedents(sentences: Sequence[Sequence[str]], parses: Sequence[Parse | None]) -> list[list[str]]:
    """Returns each sentence's words in lower case, pronouns as what they refer to: "its tail" as "dog 's tail".

    Args:
        sentences: the words of each sentence of a document.
        parses: theirs, at least of `find_contexts`.
    """
    resolved_sentences = []
    for sentence, parse, antecedents in zip(sentences, parses, find_antecedents(parses), strict=True):
        resolved_words: list[str] = []
        for position, word in enumerate(sentence):
            if parse is not None and position in antecedents:
                resolved_words += [*antecedents[position].words, *(["'s"] if parse.tags[position] == "PRP$" else [])]
            else:
                resolved_words.append(_BRACKETS.get(word.lower(), word.lower()))
        resolved_sentences.append(resolved_words)
    return resolved_sentences
