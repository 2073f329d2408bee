"""The networks of a checkpoint in memory, and the captions that they read, each distinct sentence encoded once.

**Larger encoder** (`capmeter(size=large)`), whose logit stands beside that of the network; it reads the references.

    score = σ(slope (logit + λ_6 g_6) + offset)

logit is the network's (`network.py`), g_6 that of an encoder which reads the caption together with its references and
is part of capmeter-research (`networks/own_metric/larger_encoder.py`). The parts are the network's alone.

**Uncertainty**, how sure a score is: the probability that it is on the wrong side of .5.

    right = σ(a + b l + c d)        uncertainty = 1 - right where l ≥ 0, else right
    d = (m - 1) (l - mean l_k)

l is the logit of the calibrated score, m the number of references and l_k the logit without the k-th of them. d, the
jackknife's correction of bias (Quenouille 1949), estimates how much l would rise with further references: it is large
where references disagree, and 0 for a single one, which nothing can be left out of. The encoder does not run again;
the matcher does, once for each reference (of more than 50, for 50 of them). right is the probability that the caption
is a human caption of the photo and not a perturbed one, if both are equally frequent, as for the score itself; a, b and
c depend on m (`COEFFICIENTS`) and were fitted on perturbed captions of held-out photos (`benchmarks/uncertainty.py`).
The score does not depend on d, and was calibrated with several references, so an uncertainty can be above .5: the score
is then probably on the wrong side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import MissingBackend
from capmeter.core.ragged import Ragged
from capmeter.core.registry import find_package
from capmeter.core.settings import Settings
from capmeter.encoders import Encoder, EncoderHandle, PieceTable, StateTable, load_encoder
from capmeter.encoders.batches import batch_threads, parallel_map
from capmeter.evaluation.base import Flags, Floats, empty_candidates, note_captions, note_truncated
from capmeter.metrics.embedding.word_pieces import UNREADABLE, find_unreadable
from capmeter.metrics.own.inputs import (
    Block,
    LanguageModel,
    PieceFeatures,
    SentenceEncodings,
    centroid_cosines,
    piece_blocks,
    strip_final_punctuation,
)
from capmeter.metrics.own.words import word_indices
from capmeter.text.concepts import token_concept
from capmeter.text.tokenization.token_tables import bare_word

if TYPE_CHECKING:
    from capmeter.metrics.own.network import Matcher, MatcherOutput, WordErrorTagger


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
        return SentenceEncodings.encode(sentences, self.encoder, self.layer, settings, larger)

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
    def encode(cls, part: CaptionSet, trained: TrainedCapmeter, settings: Settings) -> EncodedPart:
        """Encodes the captions of a part and their references.

        Args:
            part: the captions.
            trained: whose encoder reads them.
            settings: where it runs.
        """
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

        from capmeter.encoders.batches import device_name
        from capmeter.metrics.own.network import piece_batch

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

        blocks = self.encodings.blocks(self.candidates, self.references)
        yield from parallel_map(run_block, blocks, batch_threads(settings, device))

    def larger_terms(self, trained: TrainedCapmeter, settings: Settings) -> NDArray[np.float32]:
        """What the larger encoder adds to each score's logit, (captions,): λ_6 g_6; 0 without one."""
        pieces = self.encodings.larger_pieces
        if trained.larger is None or pieces is None:
            return np.zeros(len(self.candidates), np.float32)
        larger_logits = trained.larger.logits(pieces, self.candidates, self.references, settings)
        terms: NDArray[np.float32] = np.float32(trained.larger.weight) * larger_logits
        return terms

    def word_logits(self, trained: TrainedCapmeter, settings: Settings) -> Iterator[tuple[int, Floats]]:
        """For each caption its row, and the tagger's logits of its word pieces."""
        import torch

        from capmeter.encoders.batches import device_name
        from capmeter.metrics.own.network import piece_batch

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
        """For each caption of the part its row, and each word's probability of being right, by the tagger.

        Args:
            part: the captions that were encoded.
            trained: the tagger.
            settings: where it runs.
        """
        encoder = load_encoder(trained.encoder, settings)
        for row, logits in self.word_logits(trained, settings):
            text = part.pool[int(part.candidates[row])]
            piece_probabilities = trained.probability(WORD_CALIBRATION, logits)
            yield (
                row,
                word_probabilities(encoder, strip_final_punctuation(text), piece_probabilities, len(text.split())),
            )

    def reference_cosines(self) -> NDArray[np.float32]:
        """The cosine of each candidate with the mean of its references, (captions,)."""
        return centroid_cosines(self.encodings.vectors, self.candidates, self.references)[0]

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
            piece_texts = encoder.tokenizer.pieces(state_table.pieces[reference][1:-1])
            nearest = (state_table.unit_row(reference)[1:-1] @ candidate_vectors.T).max(axis=1)
            for token, cosine in zip(piece_texts, nearest.tolist(), strict=True):
                word = bare_word(encoder.tokenizer.word_of(token))
                if cosine >= _PARAPHRASE and word and (name := token_concept(word)) is not None:
                    concepts.add(name)
        return concepts

    def notes(self, part: CaptionSet, trained: TrainedCapmeter, settings: Settings) -> dict[str, list[str]]:
        """The captions with a sentence that was truncated, those without word pieces, and those that cannot be read.

        Args:
            part: the captions that were encoded.
            trained: whose encoder read them.
            settings: where it ran.
        """
        pieces = self.encodings.table.pieces
        empty, unreadable = self.candidate_lengths == 0, find_unreadable(pieces, trained.encoder, settings)
        truncated, truncated_references = (pieces.truncated[each] for each in (self.candidates, self.references.values))
        return note_inputs(part, empty, unreadable[self.candidates], truncated, truncated_references)


def note_inputs(
    part: CaptionSet, empty: Flags, unreadable: Flags, truncated: Flags, truncated_references: Flags | None = None
) -> dict[str, list[str]]:
    """The captions without word pieces (empty), those that cannot be read, and those with a truncated sentence.

    Args:
        part: the captions.
        empty, unreadable, truncated: of which candidates (captions).
        truncated_references: of which references, flat as `part.references.values`.
    """
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


BASE = "base"
"""The size without a larger encoder."""
LARGE = "capmeter-large"
"""The kind of checkpoint of a larger encoder, and the name of that of `size=large`."""
SIZES = {BASE: "", "large": LARGE}
"""The sizes of `capmeter`, and the checkpoint of each one's larger encoder."""


@dataclass(frozen=True, eq=False)
class LargerEncoder(ABC):
    """A larger encoder beside a network.

    Attributes:
        encoder: the encoder, with its adapters.
        weight: λ_6, of its logit.
        calibration: slope and offset of the sum.
        label: the checkpoint in signatures.
    """

    encoder: EncoderHandle
    weight: float
    calibration: tuple[float, float]
    label: str

    @abstractmethod
    def logits(
        self, pieces: PieceTable, candidates: NDArray[np.int64], references: Ragged, settings: Settings
    ) -> NDArray[np.float32]:
        """g_6 of each caption, (captions,).

        Args:
            pieces: the encoder's word pieces of all sentences.
            candidates: of each caption, as an index of a sentence.
            references: of each caption, as indices of sentences.
            settings: where the encoder runs.
        """


def load_larger_encoder(name: str, network_sha256: str) -> LargerEncoder:
    """The larger encoder of a checkpoint, from the package that provides such encoders (`capmeter.larger_encoders`).

    Args:
        name: the checkpoint's name or folder.
        network_sha256: hash of the network's checkpoint.

    Raises:
        AssetError: there is no such checkpoint, it was made for another network, or its encoder is not on this machine.
        MissingBackend: the package is not installed.
    """
    from importlib.metadata import entry_points

    for entry_point in entry_points(group="capmeter.larger_encoders", name=LARGE):
        larger: LargerEncoder = entry_point.load()(name, network_sha256)
        return larger
    raise MissingBackend(f"capmeter with a larger encoder: {find_package('larger_encoders', LARGE)}")


UNCERTAINTY = "uncertainty"
"""The name of the part."""
COEFFICIENTS = {1: (0.45, 0.55, 0.0), 2: (-0.13, 0.77, 0.71), 3: (-0.55, 0.91, 1.58), 4: (-0.62, 1.0, 1.85)}
"""a, b and c by number of references; those of four hold for more."""
MOST_LEFT_OUT = 50
"""Of more references than these, this many at even distances are left out in turn, so that time is linear in m."""
REFERENCES_AT_ONCE = 1 << 14
"""The number of references, repetitions included, whose vectors are in memory."""
_LOWEST = 1e-12  # probability, so that logits are finite


def estimate_uncertainties(part: EncodedPart, scores: Floats, trained: TrainedCapmeter, settings: Settings) -> Floats:
    """The probability that each caption's score is on the wrong side of .5, (captions,); 0 for an empty caption.

    Args:
        part: the captions.
        scores: their calibrated scores, (captions,).
        trained: the network that scored them.
        settings: where it runs.
    """
    errors = expected_errors(scores, reference_corrections(part, scores, trained, settings), part.references.lengths)
    errors[part.candidate_lengths == 0] = 0.0
    return errors


def expected_errors(scores: Floats, corrections: Floats, reference_counts: NDArray[np.int64]) -> Floats:
    """The probability that each score is on the wrong side of .5, (n,).

    Args:
        scores: 0 to 1, (n,).
        corrections: d of each, (n,).
        reference_counts: m of each, (n,), at least 1.

    >>> a, b, c = COEFFICIENTS[1]
    >>> expected_errors(np.array([0.5]), np.array([0.0]), np.array([1])).round(6) == np.round(1 / (1 + np.exp(a)), 6)
    array([ True])
    """
    coefficient_table = np.array([COEFFICIENTS[count] for count in sorted(COEFFICIENTS)])
    offset, slope, weight = coefficient_table[np.minimum(reference_counts, len(coefficient_table)) - 1].T
    logits = compute_logits(scores)
    right_probability = 0.5 * (1 + np.tanh(0.5 * (offset + slope * logits + weight * corrections)))
    errors: Floats = np.where(logits >= 0, 1 - right_probability, right_probability)
    return errors


def reference_corrections(
    part: EncodedPart, scores: Floats, trained: TrainedCapmeter, settings: Settings, most_left_out: int = MOST_LEFT_OUT
) -> Floats:
    """d of each caption, (captions,); 0 with one reference, and for an empty caption.

    Args:
        part: the captions.
        scores: their calibrated scores, (captions,).
        trained: the network that scored them.
        settings: where it runs.
        most_left_out: the number of references of a caption that are left out in turn.
    """
    reference_counts = np.where(part.candidate_lengths > 0, part.references.lengths, 0)
    corrections, logits = np.zeros(len(scores)), compute_logits(scores)
    for count in np.unique(reference_counts[reference_counts > 1]).tolist():
        caption_rows = np.flatnonzero(reference_counts == count)
        reference_rows = part.references.take(caption_rows).values.reshape(-1, count)
        positions = np.linspace(0, count - 1, min(count, most_left_out)).astype(np.int64)
        left_out = np.zeros(len(caption_rows) * len(positions))  # k n + j: of row k without its reference positions[j]
        at_once = max(1, REFERENCES_AT_ONCE // count)
        for batch_start in range(0, len(left_out), at_once):
            batch = np.arange(batch_start, min(batch_start + at_once, len(left_out)))
            row_indices, omitted = np.divmod(batch, len(positions))
            remaining = reference_rows[row_indices][np.arange(count) != positions[omitted, None]]
            lengths = np.full(len(row_indices), count - 1)
            block = EncodedPart(
                part.encodings, part.candidates[caption_rows[row_indices]], Ragged.from_lengths(remaining, lengths)
            )
            probabilities = trained.probability("score", block.score_logits(trained, settings))
            left_out[batch_start : batch_start + len(row_indices)] = compute_logits(probabilities)
        left_out_logits = left_out.reshape(-1, len(positions))
        corrections[caption_rows] = _jackknife_correction(logits[caption_rows], left_out_logits, count)
    return corrections


def _jackknife_correction(values: Floats, left_out: Floats, count: int) -> Floats:
    """The jackknife's correction of the bias of values (n,), from what each is without one observation, (n, some).

    Args:
        values: of all observations, (n,).
        left_out: without one observation each, of all or of some observations.
        count: the number of observations.

    >>> _jackknife_correction(np.array([2.0]), np.array([[1.0, 2.0, 1.5]]), 3)
    array([1.])
    """
    correction: Floats = (count - 1) * (values - left_out.mean(axis=1))
    return correction


def compute_logits(probabilities: Floats) -> Floats:
    """The logits of probabilities, of 0 and 1 as of 1e-12 and 1 - 1e-12."""
    clipped = np.clip(probabilities, _LOWEST, 1 - _LOWEST)
    logits: Floats = np.log(clipped) - np.log1p(-clipped)
    return logits
