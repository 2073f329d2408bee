"""LEIC (Cui et al. 2018): the probability that a critic takes the caption for a human's, given image and reference.

    score(ĉ, i) = 1/|R| Σ_{c ∈ R} P(ĉ is human written | i, c, Θ)                                    (Eq. 2 and A.4)

A critic Θ is trained to tell human captions from machine captions, captions of other images, and captions with permuted
or random words (`capmeter train leic`). An LSTM reads candidate and reference; the image has features; they are fused
by concatenation and a classifier of none to two hidden layers, or by compact bilinear pooling (forward.py). The corpus
score is the mean. Range 0 to 1: 1 for what the critic is sure a human wrote about this image. There is no caption that
must score 1, a reference of the image included. An empty caption scores 0.

checkpoint: `leic`, shipped: it sees one reference (`context=reference`), and was trained on captions of COCO and
    Flickr30k outside all benchmarks; or the folder of a critic of your own.
features: for a critic that sees the image: an .npz file with `image_ids` and `features` [n, width], an LMDB, or a
    network that makes them from the captions' pictures (see `capmeter.images.picture_vectors`).
as_released, seed: see below.

Captions are cut at 15 words (A.2), which is noted. The released code differs from the paper, and `as_released` gives
its numbers: the sentence's vector is the LSTM's output where the end token is, so that captions of 15 words and more,
and empty ones, have the zero vector (paper: cut at 15 words); one random reference per image is the context, drawn by
`seed` (paper: the mean over all of them); quotation marks count as words. What else differs lies in training and in
image features.

>>> from capmeter.metrics.registry import parse
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

from capmeter.captions.model import CaptionSet
from capmeter.errors import InputError
from capmeter.images.picture_vectors import PictureVectors, Source, VectorFile, VectorTable, parse_source
from capmeter.metrics.base import Context, Floats, MeanMetric, Measurement, wordless
from capmeter.metrics.contributions import contributions
from capmeter.metrics.evidence import Evidence
from capmeter.metrics.leic.critic import SHIPPED, Critic, SentenceStates, StateTable, load_critic, occluded
from capmeter.metrics.leic.forward import human_probability
from capmeter.metrics.leic.pooling import Reals
from capmeter.metrics.leic.shape import Part
from capmeter.metrics.leic.vocabulary import tokens_of
from capmeter.settings import Settings
from capmeter.text.tokens import tokenizer_version


@dataclass(frozen=True, kw_only=True)
class Leic(MeanMetric):
    """A critic's probability that the caption was written by a human, averaged over references.

    checkpoint: the critic. features: image features, for a critic that sees the image. as_released: the released code's
    numbers, with one reference per image drawn by `seed`.
    """

    NAME: ClassVar[str] = "leic"
    SUMMARY: ClassVar[str] = "a critic trained to tell human from machine captions"

    checkpoint: Annotated[str, "the critic: a shipped or installed checkpoint, or its folder"] = SHIPPED
    features: Annotated[str | None, "image features: .npz, LMDB, network(path=…), world-encoder or world-reader"] = None
    as_released: Annotated[bool, "the released code's numbers"] = False
    seed: Annotated[int, "draws one reference per image, as released"] = 0

    @property
    def critic(self) -> Critic:
        """The trained critic."""
        return load_critic(self.checkpoint)

    @property
    def needs(self) -> frozenset[str]:
        """References if the critic sees them, and pictures if a network makes their features."""
        if self.checkpoint == SHIPPED:  # known without reading it
            return frozenset({"references"})
        shape, found = self.critic.shape, set()
        if shape.sees_reference:
            found.add("references")
        if shape.sees_image and self.features is not None and not isinstance(self._source, VectorFile):
            found.add("image")
        return frozenset(found)

    @property
    def columns(self) -> tuple[str, ...]:
        """The score."""
        return ("score",)

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score of each caption."""
        critic = self.critic
        states = self._states(part)
        lengths = tokens_of(part.pool, self.as_released).ids.lengths
        scores = self._scores(critic, part, context, states, states[part.candidates], np.arange(len(part)))
        if not self.as_released:
            scores[lengths[part.candidates] == 0] = 0.0
        steps = critic.shape.steps
        long = np.flatnonzero(lengths[part.candidates] >= steps + (not self.as_released)).tolist()
        said = f"{steps} words or more: zero vector" if self.as_released else f"cut at {steps} words"
        notes = {said: [part.ids[row] for row in long]} if long else {}
        return Measurement(scores[:, None], wordless(part, lengths) | notes)

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """What each word of the candidate contributed to the logit of the score, by occlusion: it is read as unknown.

        A caption is compared with one of as many unknown words.
        """
        critic = self.critic
        states = self._states(part)
        tokens = tokens_of(part.pool, self.as_released)
        measured = self.measure(part, context).values[:, 0].tolist()
        evidence = []
        for row, score in enumerate(measured):
            words = tokens.row(int(part.candidates[row]))
            references = tuple(tokens.row(index) for index in part.references[row].tolist())
            found = None
            if words and not (self.as_released and len(words) >= critic.shape.steps):
                numbers = critic.vocabulary.numbers(words, critic.shape.steps)

                def logit(known: Floats, row: int = row, numbers: list[int] = numbers) -> Floats:
                    variants, place = np.unique(known.reshape(-1, known.shape[-1]) > 0, axis=0, return_inverse=True)
                    read = occluded(critic, numbers, variants)
                    probability = self._scores(critic, part, context, states, read, np.full(len(read), row))
                    odds: Floats = np.log(probability) - np.log1p(-probability)
                    return odds[place.reshape(known.shape[:-1])]

                shown = words[: critic.shape.steps]
                found = contributions(logit, shown, np.ones(len(shown)), np.zeros(len(shown)), "unknown words")
            evidence.append(Evidence(words, references, facts={"probability": score}, contributions=found))
        return evidence

    def _states(self, part: CaptionSet) -> Reals:
        table: StateTable = part.pool.analyse(SentenceStates(self.checkpoint, self.as_released))
        return table.states

    def _scores(
        self,
        critic: Critic,
        part: CaptionSet,
        context: Context,
        states: Reals,
        candidates: Reals,
        of: npt.NDArray[np.int64],
    ) -> Floats:
        """The mean over references of P(human) for candidates that the LSTM has read, each as one of caption `of`."""
        network, shape = critic.network, critic.shape
        rows = np.arange(len(of), dtype=np.int64)
        pairs: dict[Part, npt.NDArray[np.int64]] = {}
        shares: dict[Part, Reals] = {}
        references = part.references.take(of)
        if shape.sees_reference:
            chosen = references.values
            if self.as_released:
                chosen = chosen[references.offsets[:-1] + self._drawn(part)[of]]
            else:
                rows = references.rows
            used, pairs["reference"] = np.unique(chosen, return_inverse=True)
            shares["reference"] = network.shares("reference", states[used])
        if shape.sees_image:
            features, place = self._features(critic, part, context.settings, of)
            pairs["image"] = place[rows]
            shares["image"] = network.shares("image", network.project(features))
        pairs["candidate"], shares["candidate"] = rows, network.shares("candidate", candidates)
        probability = human_probability(network.logits(shares, pairs))
        if not shape.sees_reference or self.as_released:
            return probability
        mean: Floats = np.add.reduceat(probability, references.offsets[:-1]) / references.lengths
        return mean

    def _drawn(self, part: CaptionSet) -> npt.NDArray[np.int64]:
        """One of each caption's references, the same for all captions of an image."""
        digests = (
            hashlib.blake2b(f"{self.seed}\0{image}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
            for image in part.image_ids
        )
        drawn = np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)
        return (drawn % part.references.lengths.astype(np.uint64)).astype(np.int64)

    @property
    def _source(self) -> Source:
        return parse_source(str(self.features))

    def _features(
        self, critic: Critic, part: CaptionSet, settings: Settings, of: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The features of distinct pictures, and the place among them of each of these captions' pictures."""
        if self.features is None:
            raise InputError(
                f"leic: the critic {self.checkpoint!r} sees the image (context={critic.shape.context}); give its image "
                f"features ({critic.features or 'as in its training'}): leic(features=FILE.npz)"
            )
        source = self._source
        if isinstance(source, VectorFile):
            images, place = np.unique(np.asarray(part.image_ids, object)[of], return_inverse=True)
            features = source.vectors(images.tolist())
        else:
            table: VectorTable = part.pictures.analyse(PictureVectors(source, settings))
            features, place = table.vectors, part.image[of]
        if features.shape[1] != critic.shape.image:
            raise InputError(
                f"{self.features}: features of width {features.shape[1]}, but the critic {self.checkpoint!r} was "
                f"trained on width {critic.shape.image} ({critic.features}); give features of the same extractor"
            )
        return features, place

    def facts(self, context: Context) -> dict[str, str]:
        """The critic, its context and fusion, where its word vectors began, the tokenizer and the features."""
        critic = self.critic
        found: dict[str, Any] = {
            "weights": critic.label,
            "context": critic.shape.context,
            "fusion": critic.shape.fusion,
            "vectors": critic.start,
            "tokenizer": "ptb-cased-1" if self.as_released else tokenizer_version("ptb"),
        }
        if self.features is not None and critic.shape.sees_image:
            found["features"] = self._source.label(context.settings)
        return found
