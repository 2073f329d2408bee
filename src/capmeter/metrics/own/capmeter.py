"""`capmeter`: correctness, coverage and fluency of a caption, and one score that combines them.

    score = σ(λ_0 cos + (1 - true) λ_1 objects + true (λ_2 + λ_3 σ(coverage) + λ_4 σ(fluency)) + λ_5 σ(fluency + 8))
    true = σ(correctness)

**Correctness**: whether the references support what the caption says. **Coverage**: how much of what the references
agree on the caption says. **Fluency**: whether it is grammatical; it depends on the caption alone. **cos**: cosine of
the caption with the mean of the references. **Objects**: how similar the caption's nouns are to words of the
references, which decides where a caption is wrong. Correctness, coverage and fluency are logits of three heads of one
small network (`network.py`), in which the word pieces of the candidate and of all references attend to each other. Its
encoder was adapted to captions (`minilm-captions`).

Range 0 to 1, after calibration: at .5 a caption is as likely to be right as to contain an error, as measured on
held-out perturbed captions; the parts are calibrated on the errors that concern them. An empty candidate scores 0. The
corpus score is the mean. Any number of references, from one to fifty; a score depends on nothing but the caption and
its references. Final punctuation is ignored. A document, a text of several sentences, is judged claim by claim
(`documents.py`): every sentence of it against the most similar one of each reference, every sentence of a reference
against it, and both scene graphs against each other.

A second, smaller network (`WordErrorTagger`) predicts which words are wrong, for `explain` only. It uses states of the
encoder halfway up, where they still represent words more than the sentence, from layers adapted to this task alone.

Both networks and the encoder were trained on captions only: pairs of captions of more and less similar photos, whose
target is the similarity of all captions of the two photos, and captions with every perturbation of
`capmeter.transforms` and some others. No human judgments were used in training. docs/own-metric.md has the details.
`checkpoint` is a network from `capmeter train capmeter`, on any encoder. `size=large` adds the logit of a larger
encoder that reads the references, adapted from all-mpnet-base-v2 and part of capmeter-research: it agrees better with
people, most of all on captions of machines, and costs at least ten times as much; mpnet's own weights are not bundled.
`uncertainty=true` adds a part that says how sure each score is (`trained_networks.py`).

>>> import capmeter
>>> references = ["a dog runs on the grass", "a brown dog is running outside"]
>>> right, wrong = capmeter.score(
...     candidates=["a dog runs outside", "two cats sleep on a sofa"], references=[references] * 2, metrics="capmeter"
... )["capmeter"].items.values()
>>> right > 0.5 > wrong
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.assets import CheckpointStamp, checkpoint_stamp
from capmeter.core.checkpoints import Checkpoint, load_checkpoint, rebuilding
from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.encoders.text.layers import LAYERS, Adapter, load_module
from capmeter.evaluation.base import MeanMetric, Measurement, RunContext
from capmeter.evaluation.evidence import Evidence
from capmeter.metrics.own.documents import document_blocks, find_documents
from capmeter.metrics.own.inputs import TokenPriors, is_prior_array, strip_final_punctuation
from capmeter.metrics.own.trained_networks import (
    BASE,
    COLUMNS,
    SIZES,
    UNCERTAINTY,
    WORD_CALIBRATION,
    EncodedPart,
    TrainedCapmeter,
    estimate_uncertainties,
    load_larger_encoder,
    note_inputs,
    word_probabilities,
)
from capmeter.metrics.own.words import WordVerdicts, label_words

if TYPE_CHECKING:
    from capmeter.metrics.own.network import Matcher, WordErrorTagger


KIND = "capmeter"
TAGGER_PREFIX = "judge."
"""Prefix of the tagger's arrays in a checkpoint, including the adaptation of its encoder layers."""


@dataclass(frozen=True, kw_only=True)
class Capmeter(MeanMetric):
    """Correctness, coverage and fluency of a caption, combined in one score.

    Args:
        checkpoint: name or folder of a trained network; None for the bundled one.
        encoder: its encoder, if it has another name or folder here than in training.
        size: `base`; `large` for a larger encoder as well, or a folder from `capmeter train capmeter-large`.
        uncertainty: whether every score has a part `uncertainty`: the probability, 0 to 1, that it is on the wrong side
            of .5 (`trained_networks.py`). It changes no score.
    """

    NAME: ClassVar[str] = "capmeter"
    SUMMARY: ClassVar[str] = "correctness, coverage and fluency by a network that was trained on captions alone"
    EXTRA: ClassVar[str | None] = "neural"
    PART_SIZE: ClassVar[int] = 2048
    FAMILY: ClassVar[str] = "Learned from captions"
    MISLEADS: ClassVar[str] = (
        "Learned from captions of COCO and Flickr30k, in English; it detects the errors it was trained on better "
        "than others, and says little about captions that differ in style alone. Of 100 long captions 93 score lower "
        "without one of their sentences, and 92 with one of another photo."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score} = \sigma\left( \text{similarity} + \sigma(\text{correctness}) \left( \lambda_1 + \lambda_2 "
        r"\, \sigma(\text{coverage}) + \lambda_3 \, \sigma(\text{fluency}) \right) \right)",
        r"a_i = \sum_j \text{softmax}_j\left( q(x_i) \cdot k(y_j) + 5 \cos_{ij} \right) y_j",
        r"u_i = \max\left(0, W [x_i, a_i, x_i \odot a_i, |x_i - a_i|, \text{support}_i]\right)",
    )

    checkpoint: Annotated[str | None, "name or folder of a trained network; none: the bundled one"] = None
    encoder: Annotated[str | None, "alias, hub id or folder of its encoder; none: as in training"] = None
    size: Annotated[str, "base, large, or a folder from `capmeter train capmeter-large`"] = BASE
    uncertainty: Annotated[bool, "add a part: the probability that a score is on the wrong side of .5"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.size.strip():
            raise InputError(f"{self.name}: the size is empty; expected {', '.join(SIZES)} or a checkpoint's folder")

    @property
    def columns(self) -> tuple[str, ...]:
        """The score and its parts."""
        return (*COLUMNS, UNCERTAINTY) if self.uncertainty else COLUMNS

    def parameter_texts(self) -> dict[str, str]:
        """Every parameter with its value as text; `uncertainty` only where it is true, since no score depends on it."""
        texts = super().parameter_texts()
        return texts if self.uncertainty else {key: text for key, text in texts.items() if key != UNCERTAINTY}

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score and its parts of each caption."""
        trained, settings = self.load(context.settings), context.settings
        document_rows = find_documents(part)
        rows = np.setdiff1d(np.arange(len(part)), document_rows)
        captions = part.select(rows) if len(document_rows) else part
        caption_scores, notes = np.zeros((len(part), len(self.columns))), dict[str, list[str]]()
        if len(rows):
            encoded_part = EncodedPart.encode(captions, trained, settings)
            caption_scores[rows, : len(COLUMNS)], notes = (
                encoded_part.scores(trained, settings),
                encoded_part.notes(captions, trained, settings),
            )
            if self.uncertainty:
                caption_scores[rows, -1] = estimate_uncertainties(
                    encoded_part, caption_scores[rows, 0], trained, settings
                )
        is_empty, is_unreadable, is_truncated = np.zeros((3, len(part)), np.bool_)
        for block in document_blocks(part, document_rows, trained, settings):
            caption_scores[block.rows, : len(COLUMNS)] = block.scores()
            is_empty[block.rows], is_unreadable[block.rows] = block.empty(), block.unreadable()
            is_truncated[block.rows] = block.truncated()
            if self.uncertainty:
                caption_scores[block.rows, -1] = block.uncertainties()
        for reason, ids in note_inputs(part, is_empty, is_unreadable, is_truncated).items():
            notes[reason] = sorted([*notes.get(reason, ()), *ids], key=part.row)
        return Measurement(caption_scores, notes)

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The network, the encoder's weights, the layer and the libraries."""
        trained = self.load(context.settings)
        facts = {"network": trained.label, "weights": trained.encoder_sha256[:12], "layer": str(trained.layer)}
        if trained.larger is not None:
            facts |= {"larger": trained.larger.label, "larger_weights": trained.larger.encoder.sha256[:12]}
        return facts | {"software": trained.encoder.software(context.settings), "precision": context.settings.precision}

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """Words that the references support, do not support, or contradict, and concepts that are missing."""
        trained = self.load(context.settings)
        evidence: list[Evidence] = [Evidence((), ())] * len(part)
        document_rows = find_documents(part)
        for block in document_blocks(part, document_rows, trained, context.settings):
            for row, caption_evidence in zip(block.rows.tolist(), block.explain(), strict=True):
                evidence[row] = caption_evidence
        rows = np.setdiff1d(np.arange(len(part)), document_rows).tolist()
        if rows:
            captions = part.select(rows) if len(document_rows) else part
            for row, caption_evidence in zip(
                rows, self._explain_captions(captions, trained, context.settings), strict=True
            ):
                evidence[row] = caption_evidence
        if self.uncertainty:
            uncertainties = self.measure(part, context).values[:, -1].tolist()
            evidence = [
                replace(caption_evidence, facts={**caption_evidence.facts, UNCERTAINTY: value})
                for caption_evidence, value in zip(evidence, uncertainties, strict=True)
            ]
        return evidence

    def _explain_captions(self, part: CaptionSet, trained: TrainedCapmeter, settings: Settings) -> list[Evidence]:
        """The evidence of captions that are no documents."""
        encoded_part = EncodedPart.encode(part, trained, settings)
        encoder = load_encoder(trained.encoder, settings)
        caption_scores = encoded_part.scores(trained, settings)
        evidence: list[Evidence] = [Evidence((), ())] * len(part)
        for caption_index, probabilities in encoded_part.word_probabilities(part, trained, settings):
            caption = part[part.ids[caption_index]]
            references = [reference.split() for reference in caption.references]
            paraphrased = encoded_part.paraphrased_concepts(caption_index, encoder)
            verdicts = label_words(caption.candidate.split(), probabilities, references, paraphrased)
            facts: dict[str, float | str] = dict(
                zip(COLUMNS[1:], caption_scores[caption_index, 1:].tolist(), strict=True)
            )
            evidence[caption_index] = Evidence(
                verdicts.candidate,
                verdicts.references,
                verdicts.links(),
                verdicts.marks(),
                facts | verdicts.summary(),
                word_scores=tuple(probabilities),
            )
        return evidence

    def load(self, settings: Settings) -> TrainedCapmeter:
        """Loads the networks, once per process."""
        name, larger = self.checkpoint or KIND, SIZES.get(self.size, self.size)
        stamps = checkpoint_stamp(name), checkpoint_stamp(larger)
        return _load(name, self.encoder, larger, stamps, settings.precision)


@dataclass(frozen=True)
class SentenceReading:
    """What the networks say of each word of a sentence.

    Attributes:
        text: the sentence.
        right: the probability that the word is right, by the word error tagger.
        nearest: the largest cosine with a word of the references.
        verdicts: the supported, unsupported and contradicted words.
    """

    text: str
    right: Sequence[float]
    nearest: Sequence[float]
    verdicts: WordVerdicts


def word_verdicts(
    sentences: Sequence[Caption], captions: Sequence[Caption], settings: Settings
) -> tuple[list[SentenceReading], list[float]]:
    """Judges the words of sentences, and compares captions with their references; each distinct text is encoded once.

    Args:
        sentences: captions of one sentence each, with the references of their caption.
        captions: whole captions, with ids that no sentence has.
        settings: of the run.

    Returns:
        The reading of each sentence, and each caption's cosine with the mean of its references.
    """
    trained = Capmeter().load(settings)
    encoder = load_encoder(trained.encoder, settings)
    texts = CaptionSet.from_captions([*sentences, *captions])
    encoded_part = EncodedPart.encode(texts, trained, settings)
    of_sentences, of_captions = map(encoded_part.take, np.split(np.arange(len(texts)), [len(sentences)]))
    cosines = of_captions.reference_cosines().tolist() if captions else []
    probabilities = dict(of_sentences.word_probabilities(texts, trained, settings))
    readings = []
    for row, sentence in enumerate(sentences):
        words = sentence.candidate.split()
        stripped, nearest_cosines = strip_final_punctuation(sentence.candidate), of_sentences.nearest_cosines(row)
        nearest = word_probabilities(encoder, stripped, nearest_cosines, len(words))
        verdicts = label_words(words, probabilities[row], [reference.split() for reference in sentence.references])
        readings.append(SentenceReading(sentence.candidate, probabilities[row], nearest, verdicts))
    return readings, cosines


@lru_cache(maxsize=8)
def _load(
    name: str, encoder: str | None, larger_name: str, stamps: tuple[CheckpointStamp | None, ...], precision: str
) -> TrainedCapmeter:
    checkpoint = load_checkpoint(name, KIND)
    larger = load_larger_encoder(larger_name, checkpoint.sha256) if larger_name else None
    parameters = checkpoint.parameters
    with rebuilding("capmeter's network", name):
        network, tagger, adapts = _load_networks(checkpoint)
        priors = TokenPriors.from_weights(checkpoint.weights)
        calibration = {key: (float(slope), float(offset)) for key, (slope, offset) in parameters["calibration"].items()}
        trained_on, expected_sha256 = str(parameters["encoder"]), str(parameters["encoder_sha256"])
        layer, tagger_layer = (int(parameters[key]) for key in ("layer", "judge_layer"))
        missing_calibrations = {*COLUMNS, WORD_CALIBRATION} - set(calibration)
        if missing_calibrations:
            raise KeyError(f"calibration of {', '.join(sorted(missing_calibrations))}")
        if larger is not None:
            calibration["score"] = larger.calibration
    handle = find_encoder(encoder or trained_on)
    if handle.sha256 != expected_sha256:
        raise AssetError(
            f"capmeter: {name} was trained on the encoder {trained_on} ({expected_sha256[:12]}), not {handle.name} "
            f"({handle.sha256[:12]}); name the folder of the encoder it was trained on, or train on this one: "
            "capmeter train capmeter --encoder"
        )
    tagger_encoder = handle.unadapted
    if adapts and stamps[0] is not None:
        adapter_label = f"{tagger_encoder.name} of {name}'s word error tagger"
        tagger_encoder = tagger_encoder.with_adapter(
            Adapter(stamps[0][0], checkpoint.sha256, TAGGER_PREFIX), adapter_label
        )
    return TrainedCapmeter(
        network=network,
        tagger=tagger,
        language_model=priors.language_model,
        piece_features=priors.piece_features(load_encoder(handle, Settings(device="cpu"))),
        encoder=handle,
        layer=layer,
        tagger_encoder=tagger_encoder,
        tagger_layer=tagger_layer,
        encoder_sha256=expected_sha256,
        calibration=calibration,
        label=checkpoint.label,
        larger=larger,
    )


def _load_networks(checkpoint: Checkpoint) -> tuple[Matcher, WordErrorTagger, bool]:
    """Both networks of a checkpoint, and whether it adapts the tagger's encoder layers."""
    from capmeter.metrics.own.network import Matcher, MatcherShape, TaggerShape, WordErrorTagger

    matcher_shape = MatcherShape.from_parameters(checkpoint.parameters["shape"])
    tagger_shape = TaggerShape.from_parameters(checkpoint.parameters["judge"])
    matcher_weights = {
        array_name: array for array_name, array in checkpoint.weights.items() if not is_prior_array(array_name)
    }
    of_tagger = {
        array_name.removeprefix(TAGGER_PREFIX): matcher_weights.pop(array_name)
        for array_name in list(matcher_weights)
        if array_name.startswith(TAGGER_PREFIX)
    }
    of_layers = {array_name for array_name in of_tagger if array_name.startswith(LAYERS)}
    of_network = {array_name: array for array_name, array in of_tagger.items() if array_name not in of_layers}
    network = load_module(lambda: Matcher(matcher_shape), matcher_weights)
    return network, load_module(lambda: WordErrorTagger(tagger_shape), of_network), bool(of_layers)
