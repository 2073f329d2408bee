"""The bundled scene-graph parser: triples of captions, without torch and without dependency trees.

It was trained on human-written scene graphs of captions of image regions (FACTUAL, Li et al. 2023; `capmeter train
factual`). The model card, `capmeter/data/weights/factual/README.md`, reports how often it writes the same graph.

Sentences are processed in batches of equal length, so that calls with many captions are fastest. Sentences with more
than `MAX_WORDS` words are split, so that time stays linear in the number of words. A document (`document_splitting`) is
parsed sentence by sentence, with pronouns replaced by what they refer to, by a network of its own: the same, with upper
layers that were trained on graphs of whole documents (DiscoSG, Lin et al. 2025), which leave out what is said about the
picture.

>>> sorted(FactualParser().parse(["two dogs chasing a red ball"])[0])
[('ball', 'is', 'red'), ('dogs', 'chase', 'ball'), ('dogs', 'is', '2')]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, islice
from pathlib import Path

import numpy as np

from capmeter.core.checkpoints import load_checkpoint, rebuilding
from capmeter.core.errors import AssetError
from capmeter.text.parsing.caption_parser import bundled_caption_parser
from capmeter.text.parsing.lemmas import LemmaRules
from capmeter.text.parsing.numpy_layers import Floats
from capmeter.text.parsing.parallel_batches import index_words, map_batches, split_long_sentence
from capmeter.text.scene_graphs.coreference import find_contexts, words_with_antecedents
from capmeter.text.scene_graphs.decoder_vocabulary import DecoderVocabulary
from capmeter.text.scene_graphs.learned_network import DecoderShape, SceneGraphNetwork
from capmeter.text.scene_graphs.sentence_encoder import SentenceEncoderShape
from capmeter.text.scene_graphs.spelling import Spelling
from capmeter.text.scene_graphs.triples import Triple, drop_redundant_entities, parse_triples
from capmeter.text.scene_graphs.weight_changes import apply_changes
from capmeter.text.scene_graphs.word_piece_vocabulary import WordPieceVocabulary
from capmeter.text.tokenization.document_splitting import document_sentences
from capmeter.text.tokenization.ptb import split_as_written
from capmeter.text.tokenization.sentence_splitting import split_sentences

KIND = BUNDLED = "factual"
DOCUMENT_KIND = BUNDLED_DOCUMENTS = "factual-documents"
"""The kind of checkpoint with the changes of a parser's weights for sentences of documents."""
MAX_WORDS = 40
_TOKENS_PER_WORD, _EXTRA_TOKENS = 4, 12  # the largest number of tokens to write
_BATCH_SENTENCES = 192
_VERB_TAG = "VBG"
_PLURAL_MARKERS = frozenset(  # words in whose sentences one name may stand for several objects
    "other others another together each both next side one ones two three four 2 3 4 "  # noqa: SIM905
    "himself herself itself themselves".split()
)


def caption_words(caption: str) -> list[str]:
    """Tokenises a caption for the parser: Penn Treebank tokens in lower case."""
    return [token.lower() for token in split_as_written(caption)]


def _parser_pieces(sentence: str) -> list[list[str]]:
    """Tokenises a document's sentence, with case, in pieces that leave room for what pronouns are replaced by."""
    return [words for words in split_long_sentence(split_as_written(sentence), MAX_WORDS - 2) if words]


def verb_lemmas(words: Sequence[str], lemmas: LemmaRules) -> list[str]:
    """Returns the base forms of words as if they were verbs."""
    return [lemmas.lemma(word, _VERB_TAG) for word in words]


def unique_words(words: Sequence[str]) -> list[str]:
    """Returns the words that name one object, which is not related to itself: those that occur once in a sentence.

    >>> unique_words("a cat on a mat".split()), unique_words("two cats next to each other".split())
    (['cat', 'on', 'mat'], [])
    """
    return [] if _PLURAL_MARKERS.intersection(words) else [word for word, n in Counter(words).items() if n == 1]


class FactualParser:
    """Parses captions into triples.

    Args:
        checkpoint: the name of a bundled or installed checkpoint, or its folder (`capmeter.core.checkpoints`).
        documents: that of the network for documents, trained from this checkpoint; None: the bundled one for the
            bundled parser, else documents are parsed by the network for captions.

    Raises:
        AssetError: there is no such checkpoint, it is damaged, of another kind, or for another parser.
        MissingBackend: safetensors is not installed.
    """

    batch: int = 2048  # enough captions for large batches of one length

    def __init__(self, checkpoint: str | Path = BUNDLED, documents: str | Path | None = None) -> None:
        loaded = load_checkpoint(str(checkpoint), KIND)
        if documents is None and checkpoint == BUNDLED:
            documents = BUNDLED_DOCUMENTS
        changes = None if documents is None else load_checkpoint(str(documents), DOCUMENT_KIND)
        if changes is not None and changes.parameters.get("parser") != loaded.label:
            raise AssetError(
                f"network for documents {documents}: it was trained from {changes.parameters.get('parser')}, not from "
                f"{loaded.label}; name the checkpoint that it was trained from, or train it again"
            )
        parameters = loaded.parameters
        with rebuilding("a scene-graph parser", checkpoint):
            self.pieces = WordPieceVocabulary(loaded.vocabulary)
            self.spelling = Spelling(parameters["frequent"], parameters["known"])
            self.vocabulary = DecoderVocabulary(parameters["tokens"])
            self.lemmas = LemmaRules(**parameters["lemmas"])
            self.encoder_shape = SentenceEncoderShape(**parameters["reader"])
            self.network, self.document_network = (
                SceneGraphNetwork(
                    weights,
                    self.encoder_shape,
                    DecoderShape(**parameters["writer"]),
                    parameters["writers"],
                    self.vocabulary.predicate_end_ids,
                )
                for weights in (loaded.weights, apply_changes(loaded.weights, changes.weights if changes else {}))
            )
        self.version = f"{loaded.label}+{changes.label}" if changes else loaded.label

    def parse(self, captions: Sequence[str]) -> list[list[Triple]]:
        """Parses captions.

        Returns:
            The distinct triples of each caption or document; none for a text without words.
        """
        documents = [document_sentences(caption) for caption in captions]
        short = self._parse_captions([text for text, document in zip(captions, documents, strict=True) if not document])
        document_triples = self._parse_documents([document for document in documents if document])
        return [next(document_triples) if document else next(short) for document in documents]

    def looks_english(self, caption: str) -> bool:
        """Whether a caption looks English, by the vocabulary of the bundled caption parser."""
        return bundled_caption_parser().looks_english(caption_words(caption))

    def _parse_captions(self, captions: Sequence[str]) -> Iterator[list[Triple]]:
        sentences = [split_sentences(self.spelling.correct(caption_words(caption))) for caption in captions]
        return self._parse_texts(sentences, self.network)

    def _parse_documents(self, documents: Sequence[Sequence[str]]) -> Iterator[list[Triple]]:
        """The triples of documents, given as sentences; pronouns are replaced by what they refer to."""
        spelled = [[self.spelling.correct(words) for words in document] for document in self._resolve(documents)]
        return self._parse_texts(spelled, self.document_network)

    def read_documents(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """Returns the words of each document's sentences, with pronouns replaced by what they refer to."""
        return self._resolve([document_sentences(text) for text in texts])

    def _resolve(self, documents: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        document_tokens = [[piece for text in document for piece in _parser_pieces(text)] for document in documents]
        contexts = [find_contexts(sentences) for sentences in document_tokens]
        needed = (compress(*pair) for pair in zip(document_tokens, contexts, strict=True))
        parses = iter(
            bundled_caption_parser().parse_sentences([sentence for document in needed for sentence in document])
        )
        return [
            words_with_antecedents(sentences, [next(parses) if is_context else None for is_context in context])
            for sentences, context in zip(document_tokens, contexts, strict=True)
        ]

    def _parse_texts(self, texts: Sequence[Sequence[list[str]]], network: SceneGraphNetwork) -> Iterator[list[Triple]]:
        """Parses texts, given as sentences, and merges the triples of each."""
        pieces = [[piece for words in text for piece in split_long_sentence(words, MAX_WORDS)] for text in texts]
        triples = iter(self._parse_sentences([piece for pieces_of_text in pieces for piece in pieces_of_text], network))
        for pieces_of_text in pieces:
            yield drop_redundant_entities(triple for part in islice(triples, len(pieces_of_text)) for triple in part)

    def _parse_sentences(self, sentences: Sequence[list[str]], network: SceneGraphNetwork) -> list[list[Triple]]:
        """Parses sentences, none of them empty or longer than `MAX_WORDS`."""
        word_rows, distinct_words = index_words(sentences)
        embeddings = network.encoder.embed_words(self.pieces.rows(distinct_words))

        def parse_batch(indices: list[int]) -> list[list[Triple]]:
            encoded = network.encoder.encode(
                np.array([word_rows[sentence_index] for sentence_index in indices], np.int64), embeddings
            )
            return self._decode([sentences[sentence_index] for sentence_index in indices], encoded, network)

        return map_batches(parse_batch, word_rows, lambda _: _BATCH_SENTENCES, "scene graphs")

    def _decode(
        self, sentences: Sequence[Sequence[str]], encoded: Floats, network: SceneGraphNetwork
    ) -> list[list[Triple]]:
        """Decodes the triples of sentences of one length."""
        sources = [self.vocabulary.source_tokens(words, verb_lemmas(words, self.lemmas)) for words in sentences]
        source_ids = np.array([source.ids for source in sources], np.int64)
        unique_ids = [
            set(self.vocabulary.ids(unique_words(words), source))
            for words, source in zip(sentences, sources, strict=True)
        ]
        max_tokens = _TOKENS_PER_WORD * encoded.shape[1] + _EXTRA_TOKENS
        token_ids = network.decode(encoded, source_ids, max_tokens, unique_ids)
        return [
            parse_triples(self.vocabulary.texts(ids, source)) for ids, source in zip(token_ids, sources, strict=True)
        ]


@lru_cache(maxsize=1)
def bundled_scene_graph_parser() -> FactualParser:
    """Returns the bundled scene-graph parser, loaded once per process."""
    return FactualParser()
