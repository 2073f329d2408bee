"""LEIC (Cui et al. 2018): the probability, by a critic, that a human wrote the caption, given image and reference.

    score(ĉ, i) = 1/|R| Σ_{c ∈ R} P(ĉ is human written | i, c, Θ)                                    (Eq. 2 and A.4)

A critic Θ is trained to distinguish human captions from machine captions, captions of other images, and captions with
permuted or random words (`capmeter train leic`). An LSTM encodes candidate and reference; the image has features; they
are fused by concatenation and a classifier with up to two hidden layers, or by compact bilinear pooling (`forward.py`).
Range 0 to 1: 1 if the critic is certain that a human wrote the caption about this image. No caption is guaranteed to
score 1, not even a reference of the image. An empty caption scores 0. The corpus score is the mean.

checkpoint: `leic`, bundled: its context is one reference (`context=reference`), and it was trained on captions of COCO
    and Flickr30k outside all benchmarks; or the folder of a critic of your own.
features: for a critic that sees the image: an .npz file with `image_ids` and `features` (n, width), an LMDB, or a
    network that computes them from the images (see `capmeter_research.common.image_features`).
as_released, seed: see below.

Captions are truncated to 15 words (A.2), which is noted. The released code differs from the paper, and `as_released`
gives its scores: the sentence's vector is the LSTM's output at the end token, so that captions of 15 words and more,
and empty ones, have the zero vector (paper: truncated to 15 words); the context is one random reference per image,
sampled with `seed` (paper: the mean over all of them); quotation marks count as words. Other differences concern
training and image features.

>>> from capmeter.evaluation.registry import parse
>>> parse("leic(as_released=true)").as_released
True

Y. Cui, G. Yang, A. Veit, X. Huang, S. Belongie. Learning to Evaluate Image Captioning. CVPR 2018.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Floats, MeanMetric, Measurement, RunContext, note_captions, note_empty_candidates
from capmeter.evaluation.evidence import Evidence
from capmeter.text.tokenization.token_tables import tokenizer_version
from capmeter_research.common.contributions import compute_contributions
from capmeter_research.common.image_features import (
    FeatureFile,
    FeatureSource,
    ImageFeatures,
    ImageFeatureTable,
    parse_feature_source,
)
from capmeter_research.papers.leic.critic import (
    BUNDLED,
    Critic,
    CriticStates,
    CriticStateTable,
    encode_occluded,
    load_critic,
)
from capmeter_research.papers.leic.forward import human_probability
from capmeter_research.papers.leic.pooling import Reals
from capmeter_research.papers.leic.shape import CriticInput
from capmeter_research.papers.leic.vocabulary import tokenise_captions


@dataclass(frozen=True, kw_only=True)
class Leic(MeanMetric):
    """A critic's probability that the caption was written by a human, averaged over references.

    Args:
        checkpoint: the critic.
        features: image features, for a critic that sees the image.
        as_released: the released code's scores, with one reference per image sampled with `seed`.
        seed: for this sampling.
    """

    NAME: ClassVar[str] = "leic"
    SUMMARY: ClassVar[str] = "a critic trained to tell human from machine captions"
    MAX_WORDS: ClassVar[int | None] = 40  # trained on captions of one sentence
    FAMILY: ClassVar[str] = "Learned from captions"
    MISLEADS: ClassVar[str] = (
        "Asks whether a person wrote the caption, which is not whether it is good. The bundled critic was trained "
        "on COCO and Flickr30k, without images."
    )
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"\text{score}(c, v) = \frac{1}{|R|} \sum_{r \in R} P(c \text{ is human written} \mid v, r, \Theta)",
    )

    checkpoint: Annotated[str, "the critic: a bundled or installed checkpoint, or its folder"] = BUNDLED
    features: Annotated[str | None, "image features: .npz, LMDB, network(path=…), world-encoder or world-reader"] = None
    as_released: Annotated[bool, "the released code's numbers"] = False
    seed: Annotated[int, "seed for sampling one reference per image, as released"] = 0

    @property
    def critic(self) -> Critic:
        """The trained critic."""
        return load_critic(self.checkpoint)

    @property
    def needs(self) -> frozenset[str]:
        """References if the critic sees them, and images if a network computes their features."""
        if self.checkpoint == BUNDLED:  # without loading it
            return frozenset({"references"})
        shape, needs = self.critic.shape, set()
        if shape.sees_reference:
            needs.add("references")
        if shape.sees_image and self.features is not None and not isinstance(self._source, FeatureFile):
            needs.add("image")
        return frozenset(needs)

    def measure(self, part: CaptionSet, context: RunContext) -> Measurement:
        """The score of each caption."""
        critic, states = self.critic, self._states(part)
        lengths = tokenise_captions(part.pool, self.as_released).ids.lengths
        caption_scores = self._scores(critic, part, context, states, states[part.candidates], np.arange(len(part)))
        if not self.as_released:
            caption_scores[lengths[part.candidates] == 0] = 0.0
        steps = critic.shape.steps
        too_long = lengths[part.candidates] >= steps + (not self.as_released)
        reason = f"{steps} words or more: zero vector" if self.as_released else f"truncated to {steps} words"
        notes = note_empty_candidates(part, lengths) | note_captions(part, reason, too_long)
        return Measurement(caption_scores[:, None], notes)

    def explain(self, part: CaptionSet, context: RunContext) -> list[Evidence]:
        """The contribution of each word of the candidate to the logit of the score, by occlusion with the unknown word.

        The baseline is a caption of as many unknown words.
        """
        critic, states = self.critic, self._states(part)
        token_table = tokenise_captions(part.pool, self.as_released)
        caption_scores = self.measure(part, context).values[:, 0].tolist()
        evidence = []
        for row, score in enumerate(caption_scores):
            candidate_words = token_table.row(int(part.candidates[row]))
            references = tuple(token_table.row(sentence_index) for sentence_index in part.references[row].tolist())
            contributions = None
            if candidate_words and not (self.as_released and len(candidate_words) >= critic.shape.steps):
                ids = critic.vocabulary.encode(candidate_words, critic.shape.steps)

                def logit(visible: Floats, row: int = row, ids: list[int] = ids) -> Floats:
                    distinct_masks, inverse = np.unique(
                        visible.reshape(-1, visible.shape[-1]) > 0, axis=0, return_inverse=True
                    )
                    variants = encode_occluded(critic, ids, distinct_masks)
                    probability = self._scores(critic, part, context, states, variants, np.full(len(variants), row))
                    log_odds: Floats = np.log(probability) - np.log1p(-probability)
                    return log_odds[inverse.reshape(visible.shape[:-1])]

                used_words = candidate_words[: critic.shape.steps]
                contributions = compute_contributions(
                    logit, used_words, np.ones(len(used_words)), np.zeros(len(used_words)), "unknown words"
                )
            evidence.append(
                Evidence(candidate_words, references, facts={"probability": score}, contributions=contributions)
            )
        return evidence

    def _states(self, part: CaptionSet) -> Reals:
        state_table: CriticStateTable = part.pool.analyse(CriticStates(self.checkpoint, self.as_released))
        return state_table.states

    def _scores(
        self,
        critic: Critic,
        part: CaptionSet,
        context: RunContext,
        states: Reals,
        candidates: Reals,
        caption_indices: npt.NDArray[np.int64],
    ) -> Floats:
        """The mean over references of P(human) for encoded candidates, (n,).

        Args:
            critic, part, context: of this run.
            states: of the sentences of the pool, (sentences, width).
            candidates: states of candidates, (n, width).
            caption_indices: the caption of the part whose references and image each candidate has, (n,).
        """
        network, shape = critic.network, critic.shape
        candidate_rows = np.arange(len(caption_indices), dtype=np.int64)
        pairs: dict[CriticInput, npt.NDArray[np.int64]] = {}
        terms: dict[CriticInput, Reals] = {}
        references = part.references.take(caption_indices)
        if shape.sees_reference:
            context_sentences = references.values
            if self.as_released:
                drawn_references = references.offsets[:-1] + self._sample_references(part)[caption_indices]
                context_sentences = context_sentences[drawn_references]
            else:
                candidate_rows = references.rows
            used_sentences, pairs["reference"] = np.unique(context_sentences, return_inverse=True)
            terms["reference"] = network.fusion_terms("reference", states[used_sentences])
        if shape.sees_image:
            features, image_rows = self._image_features(critic, part, context.settings, caption_indices)
            pairs["image"] = image_rows[candidate_rows]
            terms["image"] = network.fusion_terms("image", network.project_image(features))
        elif self.features is not None:
            raise InputError(f"leic: the critic {self.checkpoint!r} sees no image; leave features={self.features} out")
        pairs["candidate"], terms["candidate"] = candidate_rows, network.fusion_terms("candidate", candidates)
        probability = human_probability(network.logits(terms, pairs))
        if not shape.sees_reference or self.as_released:
            return probability
        mean_probability: Floats = np.add.reduceat(probability, references.offsets[:-1]) / references.lengths
        return mean_probability

    def _sample_references(self, part: CaptionSet) -> npt.NDArray[np.int64]:
        """The index of one of each caption's references, the same for all captions of an image."""
        digests = (
            hashlib.blake2b(f"{self.seed}\0{image_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
            for image_id in part.image_ids
        )
        digest_numbers = np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)
        return (digest_numbers % part.references.lengths.astype(np.uint64)).astype(np.int64)

    @property
    def _source(self) -> FeatureSource:
        return parse_feature_source(str(self.features))

    def _image_features(
        self, critic: Critic, part: CaptionSet, settings: Settings, caption_indices: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The features of distinct images, and for each of these captions the row of its image."""
        if self.features is None:
            raise InputError(
                f"leic: the critic {self.checkpoint!r} sees the image (context={critic.shape.context}); give its image "
                f"features ({critic.features or 'as in its training'}): leic(features=FILE.npz)"
            )
        source = self._source
        if isinstance(source, FeatureFile):
            images, image_rows = np.unique(np.asarray(part.image_ids, object)[caption_indices], return_inverse=True)
            features = source.features(images.tolist())
        else:
            feature_table: ImageFeatureTable = part.image_pool.analyse(ImageFeatures(source, settings))
            features, image_rows = feature_table.features, part.image_indices[caption_indices]
        if features.shape[1] != critic.shape.image:
            raise InputError(
                f"{self.features}: features of width {features.shape[1]}, but the critic {self.checkpoint!r} was "
                f"trained on width {critic.shape.image} ({critic.features}); give features of the same extractor"
            )
        return features, image_rows

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """The critic, its context and fusion, how its word vectors were initialised, the tokenizer and the features."""
        critic = self.critic
        facts: dict[str, Any] = {
            "weights": critic.label,
            "context": critic.shape.context,
            "fusion": critic.shape.fusion,
            "vectors": critic.initialisation,
            "tokenizer": "ptb-cased-1" if self.as_released else tokenizer_version("ptb"),
        }
        if self.features is not None and critic.shape.sees_image:
            facts["features"] = self._source.label(context.settings)
        return facts
