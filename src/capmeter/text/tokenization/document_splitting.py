"""The sentences of documents: texts of several sentences, as vision-language models write them.

A *document* is a text of at least `MIN_DOCUMENT_SENTENCES` sentences and `MIN_DOCUMENT_WORDS` words. There, lines end
sentences too, Markdown is read as what it renders (headings, list items and table cells are sentences of their own,
emphasis and links are their texts, code blocks and images are left out), and ". " after an abbreviation or an initial
does not end a sentence.

>>> _split_document("## Scene\\n- **Two dogs** run.Dr. Who's [cat](x.html) sleeps. It is old.")
['Scene', 'Two dogs run.', "Dr. Who's cat sleeps.", 'It is old.']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from capmeter.captions.clean_texts import rendered_lines

MIN_DOCUMENT_SENTENCES, MIN_DOCUMENT_WORDS = 3, 60
"""Sizes from which a text is a document; what is shorter is a caption, as the published metrics take it."""

_BOUNDARY = re.compile(r"(?<![.!?。！？…])[.!?。！？…]+[\"'”’»)\]]*(?=\s|[A-Z][a-z]|[。-\uffff]|$)|[。！？]")
_MARKS = re.compile(r"[^\w\s]+\s?|\n")
_SPACED_MARKS, _UNSPACED_MARKS = re.compile(r"[.!?].*\s|[。！？\n]", re.DOTALL), re.compile("[。！？]")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:[A-Z]|[A-Za-z]\.(?:[A-Za-z]\.)*[A-Za-z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Jr|Sr|Inc|Ltd|Co|No|Fig|Vol|Ave"
    r"|approx|ca|cf|vs|etc|e\.g|i\.e|al|est|dept|sq|ft|in)\.$"
)
_TITLES = frozenset("Mr Mrs Ms Dr Prof St Mt Fig Vol".split())  # noqa: SIM905
_NEXT_CHARACTER = re.compile(r"\s*(\S)")


def _split_document(text: str) -> list[str]:
    """Splits a text of any length into sentences, without its Markdown; time is linear in its length."""
    return [sentence for line in rendered_lines(text) for sentence in _split_line(line)]


def document_sentences(text: str) -> list[str]:
    """The sentences of a document; none if the text is a caption.

    >>> document_sentences("A dog runs. It is old. It barks."), len(document_sentences("A dog runs on grass. " * 12))
    ([], 12)
    """
    if len(text) < 2 * MIN_DOCUMENT_WORDS - 1 or len(text.split()) < MIN_DOCUMENT_WORDS:
        return []
    if len(list(islice(_spaced_ends(text.strip()), MIN_DOCUMENT_SENTENCES - 1))) < MIN_DOCUMENT_SENTENCES - 1:
        return []
    sentences = _split_document(text)
    return sentences if len(sentences) >= MIN_DOCUMENT_SENTENCES else []


def _spaced_ends(text: str) -> Iterator[re.Match[str]]:
    """Ends of sentences with a blank after them: captions of 2015 run sentences together ("a dog.Two cats")."""
    for marks in _MARKS.finditer(text):
        end_pattern = _SPACED_MARKS if marks[0][-1].isspace() else _UNSPACED_MARKS
        yield from end_pattern.finditer(marks[0])


def _split_line(line: str) -> list[str]:
    """Splits a line at the ends of its sentences, except after abbreviations."""
    sentences, sentence_start = [], 0
    for boundary in _BOUNDARY.finditer(line):
        if line[boundary.start()] == "." and _is_abbreviation(line, sentence_start, boundary.end()):
            continue
        sentences.append(line[sentence_start : boundary.end()].strip())
        sentence_start = boundary.end()
    sentences.append(line[sentence_start:].strip())
    return [sentence for sentence in sentences if any(map(str.isalnum, sentence))]


def _is_abbreviation(line: str, start: int, end: int) -> bool:
    """Whether the sentence from `start` up to `end` ends in an abbreviation, after which it may go on."""
    abbreviation_match = _ABBREVIATION.search(line[max(start, end - 12) : end])
    next_character = _NEXT_CHARACTER.match(line, end)
    if abbreviation_match is None or next_character is None:
        return False
    name = abbreviation_match[0].strip(" \t(\"'“.")
    if name == "No":
        return next_character[1].isdigit()
    return name in _TITLES or len(name) == 1 or not next_character[1].isupper()
