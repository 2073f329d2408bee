"""The networks of a checkpoint in memory, and the captions that they read, each distinct sentence encoded once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import Encoder, EncoderHandle, StateTable, load_encoder
from capmeter.encoders.parallel_map import limit_threads, parallel_map, torch_threads
from capmeter.encoders.text.reference_reader import load_reader
from capmeter.evaluation.base import Floats
from capmeter.metrics.embedding.word_pieces import UNREADABLE, find_unreadable
from capmeter.metrics.learned.capmeter.inputs import (
    Block,
    PieceFeatures,
    SentenceEncodings,
    centroid_cosines,
    piece_batch,
    piece_blocks,
    strip_final_punctuation,
)
from capmeter.metrics.learned.capmeter.language_model import LanguageModel
from capmeter.metrics.learned.capmeter.larger_encoder import LargerEncoder
from capmeter.metrics.learned.capmeter.words import bare_word, word_indices
from capmeter.metrics.notes import Flags, empty_candidates, note_captions, note_truncated
from capmeter.text.concepts import token_concept

if TYPE_CHECKING:
    from capmeter.metrics.learned.capmeter.network import Matcher, MatcherOutput, WordErrorTagger

COLUMNS = ("score", "correctness", "coverage", "fluency")
WORD_CALIBRATION = "right"
"""The key of the calibration of words."""
_PARAPHRASE = 0.6  # cosine with a word of the candidate above which a concept counts as paraphrased


@dataclass(frozen=True, eq=False)
class TrainedCapmeter:
    """A checkpoint in memory.

    Attributes:
        network: the matcher.
        tagger: the network for words.
        language_model, piece_features: the token priors of both.
        encoder, layer: what the matcher reads.
        tagger_encoder, tagger_layer: what the tagger reads.
        encoder_sha256: hash of the matcher's encoder.
        calibration: slope and offset of each column's logits, and of words'.
        label: the network in signatures.
        larger: the larger encoder, if there is one.
    """

    network: Matcher
    tagger: WordErrorTagger
    language_model: LanguageModel
    piece_features: PieceFeatures
    encoder: EncoderHandle
    layer: int
    tagger_encoder: EncoderHandle
    tagger_layer: int
    encoder_sha256: str
    calibration: Mapping[str, tuple[float, float]]
    label: str
    larger: LargerEncoder | None = None

    def encode(self, sentences: Sequence[str], settings: Settings) -> SentenceEncodings:
        """What the matcher reads of these sentences."""
        larger = None if self.larger is None else self.larger.encoder
        return SentenceEncodings.of(sentences, self.encoder, self.layer, settings, larger)

    def probability(self, name: str, logits: Any) -> Floats:
        """σ(slope · logit + offset), with the calibration of this name."""
        slope, offset = self.calibration[name]
        probability: Floats = 0.5 * (1 + np.tanh(0.5 * (slope * np.asarray(logits, np.float64) + offset)))
        return probability

    def columns(self, output: MatcherOutput) -> Floats:
        """The calibrated score and its parts, (n, 4), in the order of `COLUMNS`."""
        return np.stack([self.probability(name, getattr(output, name).cpu().numpy()) for name in COLUMNS], axis=1)


@dataclass(frozen=True, eq=False)
class EncodedPart:
    """The captions of a part without final punctuation, each distinct sentence encoded once."""

    encodings: SentenceEncodings
    candidates: NDArray[np.int64]  # (captions,), indices of the sentences
    references: Ragged

    @classmethod
    def of(cls, part: CaptionSet, trained: TrainedCapmeter, settings: Settings) -> EncodedPart:
        """Encodes the captions of a part and their references."""
        text_indices: dict[str, int] = {}
        texts = map(strip_final_punctuation, part.pool.sentences)
        sentence_indices = np.array([text_indices.setdefault(text, len(text_indices)) for text in texts], np.int64)
        encodings = trained.encode(tuple(text_indices), settings)
        references = Ragged(sentence_indices[part.references.values], part.references.offsets)
        return cls(encodings, sentence_indices[part.candidates], references)

    def take(self, rows: NDArray[np.int64]) -> EncodedPart:
        """The captions of these rows; the encodings are shared."""
        return EncodedPart(self.encodings, self.candidates[rows], self.references.take(rows))

    @property
    def candidate_lengths(self) -> NDArray[np.int64]:
        """The number of word pieces of each candidate, (captions,); one without any is empty, whatever it holds."""
        return self.encodings.table.pieces.lengths[self.candidates] - 2  # begin and end

    def scores(self, trained: TrainedCapmeter, settings: Settings) -> Floats:
        """The calibrated columns of each caption, (captions, 4); 0 for an empty one."""
        scores = np.zeros((len(self.candidates), len(COLUMNS)))
        for rows, output in self.run_matcher(trained, settings):
            scores[rows] = trained.columns(output)
        scores[self.candidate_lengths == 0] = 0.0
        return scores

    def score_logits(self, trained: TrainedCapmeter, settings: Settings) -> Floats:
        """The logit of each caption's score before calibration, (captions,)."""
        caption_logits = np.zeros(len(self.candidates))
        for rows, output in self.run_matcher(trained, settings):
            caption_logits[rows] = output.score.cpu().numpy()
        return caption_logits

    def run_matcher(
        self, trained: TrainedCapmeter, settings: Settings
    ) -> Iterator[tuple[NDArray[np.int64], MatcherOutput]]:
        """The matcher's outputs in blocks of rows; the score includes the larger encoder's logit, if there is one."""
        import torch

        from capmeter.encoders.devices import device_name

        device = device_name(settings.device)
        network = trained.network.to(device)
        added_terms = torch.from_numpy(self.larger_terms(trained, settings)).to(device)

        def run_block(block: Block) -> tuple[NDArray[np.int64], MatcherOutput]:
            rows, candidates, references, similarities = block
            with torch.inference_mode():
                piece_batches = (piece_batch(each, trained.piece_features, device) for each in (candidates, references))
                lm_features = trained.language_model.features(candidates)
                feature_tensors = (torch.from_numpy(each).to(device) for each in (similarities, lm_features))
                output: MatcherOutput = network(*piece_batches, *feature_tensors)
            return rows, output._replace(score=output.score + added_terms[torch.from_numpy(rows)])

        threads = (settings.threads or torch_threads()) if device == "cpu" else 1
        yield from parallel_map(run_block, self.encodings.blocks(self.candidates, self.references), threads)

    def larger_terms(self, trained: TrainedCapmeter, settings: Settings) -> NDArray[np.float32]:
        """What the larger encoder adds to each score's logit, (captions,): λ_6 g_6; 0 without one."""
        pieces = self.encodings.larger_pieces
        if trained.larger is None or pieces is None:
            return np.zeros(len(self.candidates), np.float32)
        reader = load_reader(trained.larger.encoder, settings)
        with limit_threads(settings.threads):
            reader_logits = reader.score(pieces, self.candidates, self.references)
        terms: NDArray[np.float32] = np.float32(trained.larger.weight) * reader_logits
        return terms

    def word_logits(self, trained: TrainedCapmeter, settings: Settings) -> Iterator[tuple[int, Floats]]:
        """For each caption its row, and the tagger's logits of its word pieces."""
        import torch

        from capmeter.encoders.devices import device_name

        device = device_name(settings.device)
        tagger, piece_table = trained.tagger.to(device), self.encodings.table.pieces
        tagger_states = load_encoder(trained.tagger_encoder, settings).hidden_states(piece_table, trained.tagger_layer)
        for rows, candidates, references in piece_blocks(
            self.candidates, StateTable(piece_table, tagger_states), self.references
        ):
            with torch.inference_mode():
                piece_batches = (piece_batch(each, trained.piece_features, device) for each in (candidates, references))
                lm_features = torch.from_numpy(trained.language_model.features(candidates)).to(device)
                piece_logits = tagger(*piece_batches, lm_features).cpu().numpy()
            for row, row_logits, is_word in zip(rows.tolist(), piece_logits, candidates.word_mask, strict=True):
                yield row, row_logits[is_word]

    def word_probabilities(
        self, part: CaptionSet, trained: TrainedCapmeter, settings: Settings
    ) -> Iterator[tuple[int, list[float]]]:
        """For each caption of the part its row, and each word's probability of being right, by the tagger."""
        encoder = load_encoder(trained.encoder, settings)
        for row, logits in self.word_logits(trained, settings):
            text = part.pool[int(part.candidates[row])]
            piece_probabilities = trained.probability(WORD_CALIBRATION, logits)
            yield (
                row,
                word_probabilities(encoder, strip_final_punctuation(text), piece_probabilities, len(text.split())),
            )

    def reference_cosines(self, trained: TrainedCapmeter, settings: Settings) -> NDArray[np.float32]:
        """The cosine of each candidate with the mean of its references, by the larger encoder if there is one, which
        reads them together, (captions,).
        """
        pieces = self.encodings.larger_pieces
        if trained.larger is None or pieces is None:
            return centroid_cosines(self.encodings.vectors, self.candidates, self.references)[0]
        reader = load_reader(trained.larger.encoder, settings)
        with limit_threads(settings.threads):
            return reader.cosines(pieces, self.candidates, self.references)

    def nearest_cosines(self, row: int) -> Floats:
        """The largest cosine of each word piece of a candidate with one of its references, (pieces,)."""
        state_table = self.encodings.table
        candidate_vectors = state_table.unit_row(int(self.candidates[row]))[1:-1]
        reference_vectors = [state_table.unit_row(reference)[1:-1] for reference in self.references[row].tolist()]
        cosines: Floats = (
            (candidate_vectors @ np.concatenate(reference_vectors).T).max(axis=1, initial=-1.0).astype(np.float64)
        )
        return cosines

    def paraphrased_concepts(self, row: int, encoder: Encoder) -> set[str]:
        """Concepts of the references that the candidate expresses in other words."""
        state_table = self.encodings.table
        candidate_vectors = state_table.unit_row(int(self.candidates[row]))[1:-1]
        concepts: set[str] = set()
        for reference in self.references[row].tolist() if len(candidate_vectors) else ():
            piece_texts = encoder.tokens(state_table.pieces[reference][1:-1])
            nearest = (state_table.unit_row(reference)[1:-1] @ candidate_vectors.T).max(axis=1)
            for token, cosine in zip(piece_texts, nearest.tolist(), strict=True):
                word = bare_word(encoder.word_of(token))
                if cosine >= _PARAPHRASE and word and (name := token_concept(word)) is not None:
                    concepts.add(name)
        return concepts

    def notes(self, part: CaptionSet, trained: TrainedCapmeter, settings: Settings) -> dict[str, list[str]]:
        """The captions with a sentence that was truncated, those without word pieces, and those that cannot be read."""
        pieces = self.encodings.table.pieces
        empty, unreadable = self.candidate_lengths == 0, find_unreadable(pieces, trained.encoder, settings)
        truncated, truncated_references = (pieces.truncated[each] for each in (self.candidates, self.references.values))
        return note_inputs(part, empty, unreadable[self.candidates], truncated, truncated_references)


def note_inputs(
    part: CaptionSet, empty: Flags, unreadable: Flags, truncated: Flags, truncated_references: Flags | None = None
) -> dict[str, list[str]]:
    """The captions without word pieces (empty), those that cannot be read, and those with a truncated sentence."""
    notes = note_captions(part, "no words in candidate", empty & ~empty_candidates(part))
    notes |= note_captions(part, UNREADABLE, unreadable)
    return notes | note_truncated(part, truncated, truncated_references)


def word_probabilities(encoder: Encoder, sentence: str, pieces: Floats, count: int) -> list[float]:
    """The probability of each word: the lowest of its pieces; 1 for words without any.

    Args:
        encoder: whose word pieces these are.
        sentence: the sentence as encoded.
        pieces: probabilities of its word pieces.
        count: number of words.
    """
    probabilities = np.ones(count)
    for word, probability in zip(word_indices(encoder, sentence, len(pieces)) or (), pieces.tolist(), strict=False):
        if word < count:
            probabilities[word] = min(probabilities[word], probability)
    values: list[float] = probabilities.tolist()
    return values
