"""Words of documents with pronouns replaced; only sentences with pronouns and their antecedents need to be parsed."""

from __future__ import annotations

from capmeter_research.networks.scene_graph_parser.pronouns import find_contexts, words_with_antecedents

from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.tokenization.ptb import split_as_written


def test_words_are_replaced_whatever_other_sentences_are_parsed() -> None:
    sentences = ("A girl rides a horse.", "Its tail is long.", "Trees are green.", "Clouds pass.", "The sky is blue.")
    tokens = [split_as_written(sentence) for sentence in sentences]
    parses = bundled_caption_parser().parse_sentences(tokens)
    resolved = words_with_antecedents(tokens, parses)
    assert " ".join(resolved[1]) == "horse 's tail is long ."
    contexts = find_contexts(tokens)
    assert contexts == [True, True, False, False, False]
    needed = [parse if is_context else None for parse, is_context in zip(parses, contexts, strict=True)]
    assert words_with_antecedents(tokens, needed) == resolved
