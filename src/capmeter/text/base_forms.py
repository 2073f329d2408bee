"""Base forms of tagged words by WordNet's `morphy` (Miller 1995; Fellbaum 1998), as in NLTK's WordNetLemmatizer.

A word that is listed as an irregular form has its bases; another loses a suffix of its part of speech. Of several
forms in the dictionary, the word itself included, the shortest counts. The dictionary is METEOR's (WordNet 3.0), which
has all parts of speech in one list: a few rare words differ.

>>> from capmeter.text.meteor.synonyms import Synonyms
>>> dictionary = Synonyms("glass\\n1\\nglasses\\n2\\nseat\\n3\\nman\\n4\\n", "man\\nmen\\n")
>>> [base_form(*word, dictionary) for word in (("glasses", "NNS"), ("seated", "VBN"), ("seated", "NN"), ("men", "NNS"))]
['glass', 'seat', 'seated', 'man']
"""

from __future__ import annotations

from collections.abc import Callable

from capmeter.text.meteor.synonyms import Synonyms

_VERB = "s: ies:y es:e es: ed:e ed: ing:e ing:"
_NOUN = "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y"
_RULES = {
    kind: [(rule.partition(":")[0], rule.partition(":")[2]) for rule in rules.split()]
    for kind, rules in {"N": _NOUN, "V": _VERB, "J": "er: est: er:e est:e", "R": ""}.items()
}

# METEOR's dictionary does not say which part of speech a word or an irregular form is; this stands in for it.
_IRREGULAR: dict[str, Callable[[str], bool]] = {
    "N": lambda word: not word.endswith(("ed", "ing")),
    "V": lambda word: True,
    "J": lambda word: word.endswith(("er", "est")),
    "R": lambda word: word.endswith(("er", "est")),
}
# words of the dictionary that are not of this part of speech
_OTHER_WORDS = {"N": ("scissor", "clothe"), "V": ("ti", "car")}


def base_form(word: str, tag: str, dictionary: Synonyms) -> str:
    """The base form of a word.

    Args:
        word: in lower case.
        tag: its Penn Treebank tag; a word that is not a verb, adjective or adverb is treated as a noun.
        dictionary: the words of WordNet, with their irregular forms.

    Returns:
        The base form, or the word itself if the dictionary has none.
    """
    word_class = tag[:1] if tag[:1] in _RULES else "N"
    forms = dictionary.bases(word) if _IRREGULAR[word_class](word) else []
    if not forms:
        forms = [word[: -len(suffix)] + ending for suffix, ending in _RULES[word_class] if word.endswith(suffix)]
        forms = [form for form in forms if form not in _OTHER_WORDS.get(word_class, ())]
    return min((form for form in (word, *forms) if dictionary.knows(form)), key=len, default=word)
