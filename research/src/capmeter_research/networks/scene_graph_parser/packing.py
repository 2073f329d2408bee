"""What the scene-graph parser learns from its captions before training, and the captions as arrays of ids.

>>> from capmeter_research.networks.scene_graph_parser.triples import parse_triples
>>> triples = [("man", "sit on", "bench"), ("bench", "is", "red"), ("dog",)]
>>> tokens = linearise_triples(triples, "a man sits on a red bench , dog".split(), {"on", "is"}, {"sit"})
>>> " ".join(tokens).replace(PREDICATE, "_").replace(VERB, "=")
'bench _is red <fact> man =sit _on bench <fact> dog'
>>> parse_triples(tokens) == [triples[1], triples[0], triples[2]]
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from capmeter.text.meteor.synonyms import Synonyms
from capmeter.text.parsing.lemmas import LemmaRules
from capmeter_research.networks.scene_graph_parser.examples import SceneGraphExample
from capmeter_research.networks.scene_graph_parser.factual_parser import MAX_WORDS, Spelling, caption_words, verb_lemmas
from capmeter_research.networks.scene_graph_parser.triples import (
    CLOSE,
    CONTINUATION,
    NEXT,
    OPEN,
    PAD_ID,
    PREDICATE,
    SPECIAL_PIECES,
    SPECIAL_TOKENS,
    STOP_ID,
    VERB,
    DecoderVocabulary,
    Triple,
    WordPieceVocabulary,
)

# words of a caption that are predicates by themselves, not verbs that a predicate begins with
NOT_VERBS = frozenset(
    "a above across against along among around as at away back before behind below beneath beside between beyond by "  # noqa: SIM905
    "down for from in inside into is of off on onto out outside over past through to toward towards under up with near "
    "be have next top front side edge middle corner part bottom end".split()
)
_MIN_TOKEN_COUNT = 2
_FREQUENT_COUNT = 10  # of a word that misspelt words are corrected to
_MIN_CORRECTION_LENGTH = 3
_NOT_MENTIONED = 1 << 20


def count_words(examples: Iterable[SceneGraphExample]) -> Counter[str]:
    """The number of occurrences of each word in the captions."""
    return Counter(word for example in examples for word in caption_words(example.caption))


def learn_spelling(
    examples: Iterable[SceneGraphExample], correct_words: Iterable[str], dictionary: Synonyms
) -> Spelling:
    """A spelling that corrects to frequent words of the captions.

    A frequent word that is in no dictionary is misspelt if a similar frequent word is in one ("refridgerator").

    Args:
        examples: captions.
        correct_words: rare words that are not corrected.
        dictionary: more such words; those that would be corrected are stored ("grout" to "group").
    """
    word_counts = count_words(examples)
    frequent_words = [
        word
        for word, count in word_counts.most_common()
        if count >= _FREQUENT_COUNT and len(word) >= _MIN_CORRECTION_LENGTH
    ]
    known_words = {*correct_words, *filter(dictionary.synsets, word_counts)}
    first_spelling = Spelling((), known_words)
    first_spelling = Spelling([word for word in frequent_words if first_spelling.is_correct(word)], known_words)
    correction_targets = [word for word in frequent_words if first_spelling.correct([word]) == [word]]
    base_spelling = Spelling(correction_targets, correct_words)
    protected_words = known_words.union(dictionary.words)
    return Spelling(
        correction_targets,
        base_spelling.rare.union(word for word in protected_words if base_spelling.correct([word]) != [word]),
    )


def select_word_pieces(
    vocabulary: Sequence[str], words: Iterable[str], more_words: Iterable[str], max_pieces: int
) -> list[int]:
    """The word pieces of an encoder to keep: `SPECIAL_PIECES`, letters, those of words, then the most frequent.

    Args:
        vocabulary: the encoder's pieces, frequent ones first.
        words: all their pieces are kept.
        more_words: their pieces are kept up to `max_pieces`, frequent ones first.
        max_pieces: number of pieces.

    Returns:
        Ids in the encoder's vocabulary, those of `SPECIAL_PIECES` first.
    """
    id_by_piece = {piece: piece_id for piece_id, piece in enumerate(vocabulary)}
    pieces = WordPieceVocabulary([*SPECIAL_PIECES, *(piece for piece in vocabulary if piece not in SPECIAL_PIECES)])

    def piece_ids(words: Iterable[str]) -> set[int]:
        return {id_by_piece[pieces.pieces[word_piece]] for word in words for word_piece in pieces.ids(word)}

    letters = {
        piece_id
        for piece, piece_id in id_by_piece.items()
        if piece.isascii() and len(piece.removeprefix(CONTINUATION)) == 1
    }
    required_ids = letters | piece_ids(words)
    optional_ids = sorted(piece_ids(more_words) - required_ids)
    special_ids = [id_by_piece[piece] for piece in SPECIAL_PIECES]
    optional_count = max(0, max_pieces - len(required_ids) - len(special_ids))
    return [*special_ids, *sorted((required_ids | set(optional_ids[:optional_count])) - set(special_ids))]


def learn_vocabulary(
    examples: Sequence[SceneGraphExample], lemmas: LemmaRules, spelling: Spelling
) -> DecoderVocabulary:
    """The tokens that occur twice: predicates, what follows their verbs, and words that are not in their caption.

    Args:
        examples: captions with their graphs.
        lemmas: rules from words to lemmas.
        spelling: corrects the captions' words.
    """
    predicate_counts = Counter(triple[1] for each in examples for triple in each.triples if len(triple) == 3)
    suffix_counts: Counter[str] = Counter()
    missing_counts: Counter[str] = Counter()
    for example in examples:
        words = spelling.correct(caption_words(example.caption))
        in_caption, caption_verbs = set(words), base_verbs(words, lemmas)
        for triple in example.triples:
            parts = [triple[0], triple[-1]]
            if len(triple) == 3:
                verb, _, rest = triple[1].partition(" ")
                suffix_counts[rest if verb in caption_verbs else triple[1]] += 1
                is_rare = predicate_counts[triple[1]] < _MIN_TOKEN_COUNT and verb not in caption_verbs
                parts += [triple[1]] if is_rare else []
            missing_counts.update(word for part in parts for word in part.split() if word not in in_caption)
    frequent_predicates = [PREDICATE + each for each, count in suffix_counts.items() if count >= _MIN_TOKEN_COUNT]
    missing_words = [word for word, count in missing_counts.items() if count >= _MIN_TOKEN_COUNT]
    return DecoderVocabulary([*SPECIAL_TOKENS, *sorted(frequent_predicates), *sorted(missing_words)])


def base_verbs(words: Sequence[str], lemmas: LemmaRules) -> set[str]:
    """The base forms of a caption's words that may be verbs."""
    return {lemma for lemma in verb_lemmas(words, lemmas) if lemma not in NOT_VERBS}


@dataclass(frozen=True, eq=False)
class PackedCaptions:
    """Captions of one length as ids."""

    pieces: npt.NDArray[np.int32]  # (captions, length, pieces per word)
    source_ids: npt.NDArray[np.int64]  # (captions, 2 length), the words and their base forms as decoder tokens
    targets: npt.NDArray[np.int64]  # (captions, steps), decoder tokens, `STOP_ID` last, then `PAD_ID`

    def __len__(self) -> int:
        return len(self.pieces)


@dataclass(frozen=True)
class CaptionPacker:
    """Converts captions to ids."""

    vocabulary: DecoderVocabulary  # of the decoder
    pieces: WordPieceVocabulary  # of the encoder
    spelling: Spelling  # corrects the captions' words
    lemmas: LemmaRules  # of verbs
    max_steps: int  # triples beyond this number of tokens are left out

    def pack(self, examples: Iterable[SceneGraphExample]) -> dict[int, PackedCaptions]:
        """The captions by length, without those over `MAX_WORDS`."""
        by_length: dict[int, list[tuple[list[list[int]], list[int], list[int]]]] = {}
        for example in examples:
            words = self.spelling.correct(caption_words(example.caption)[:MAX_WORDS])
            if words:
                source_tokens = self.vocabulary.source_tokens(words, verb_lemmas(words, self.lemmas))
                verbs = base_verbs(words, self.lemmas)
                tokens = linearise_triples(example.triples, words, self.vocabulary.predicates, verbs)
                targets = [*self.vocabulary.ids(tokens, source_tokens), STOP_ID][: self.max_steps]
                piece_rows = [self.pieces.row(word) for word in words]
                by_length.setdefault(len(piece_rows), []).append((piece_rows, source_tokens.ids, targets))
        return {
            length: PackedCaptions(
                np.array([piece_rows for piece_rows, _, _ in group], np.int32),
                np.array([source_ids for _, source_ids, _ in group], np.int64),
                _pad([targets for _, _, targets in group]),
            )
            for length, group in sorted(by_length.items())
        }


def _pad(rows: Sequence[Sequence[int]]) -> npt.NDArray[np.int64]:
    padded_rows = np.full((len(rows), max(map(len, rows))), PAD_ID, np.int64)
    for padded_row, token_ids in zip(padded_rows, rows, strict=True):
        padded_row[: len(token_ids)] = token_ids
    return padded_rows


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
