"""What captions of systems are like: length, variety, novelty, perplexity, and CIDEr-D against what was not read.

Every system's caption of a photo is compared with all of the photo's captions but one: a written caption with those
that the writer did not read, any other with those that are left when one, drawn by the seed, is taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, pairwise

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.progress import task
from capmeter.evaluation.base import Floats, Metric
from capmeter.evaluation.runner import score
from capmeter.text.tokenization.ptb import tokenise
from capmeter.text.tokenization.token_tables import tokenise_sentences
from capmeter_research.common.corpus import Photo
from capmeter_research.networks.caption_writer.machine import read_places, unread
from capmeter_research.networks.caption_writer.trigrams import Trigrams

HUMAN = "human"


@dataclass(frozen=True)
class CaptionStatistics:
    """What the captions of a system are like.

    Args:
        captions: how many there are.
        perplexity: per word, under the trigrams of captions of held-out photos.
        words: mean length.
        distinct_1: distinct words per word.
        distinct_2: distinct bigrams per bigram.
        novel: share of captions that are no caption of a photo that was trained on, letter case and punctuation apart.
        cider_d: CIDEr-D; idf from the references of the photos.
        pairwise_accuracy: for each critic, the share of pairs of a human caption and one of this system in which the
            human one has the higher score (the area under the ROC curve): .5 by chance.
    """

    captions: int
    perplexity: float
    words: float
    distinct_1: float
    distinct_2: float
    novel: float
    cider_d: float
    pairwise_accuracy: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, float]:
        """The measures by name, in their order."""
        measures = asdict(self)
        accuracies = measures.pop("pairwise_accuracy")
        return measures | {f"pairwise accuracy of {critic}": area for critic, area in accuracies.items()}


@dataclass(frozen=True, eq=False)
class ReferenceNgrams:
    """What captions are measured against: trigrams of held-out photos, and the captions that were trained on."""

    trigrams: Trigrams
    trained: frozenset[str]

    @classmethod
    def of(cls, photos: Sequence[Photo]) -> ReferenceNgrams:
        """From the photos of a corpus, held-out ones and others.

        Raises:
            InputError: no photo is held out.
        """
        held_out_sentences = [tokenise(text) for photo in photos if photo.held_out for text in photo.captions]
        if not held_out_sentences:
            raise InputError(f"none of {len(photos)} photos is held out; give more photos, for the trigrams")
        trained_captions = chain.from_iterable(photo.captions for photo in photos if not photo.held_out)
        return cls(Trigrams(held_out_sentences), frozenset(map(_plain, trained_captions)))


def describe(
    systems: Mapping[str, Mapping[str, str]],
    read: Mapping[str, Mapping[str, Sequence[int]]],
    photos: Mapping[str, Photo],
    references: ReferenceNgrams,
    seed: int = 0,
    critics: Mapping[str, Metric] | None = None,
) -> dict[str, CaptionStatistics]:
    """The measures of each system, and of `human`: for each photo, the caption that is taken away.

    Args:
        systems: each system's caption of each photo, by the key of the photo.
        read: for the systems of a writer, the places of the captions that it read.
        photos: by key.
        references: n-grams of the captions that they are measured against.
        seed: of the captions that are taken away.
        critics: metrics by name, for `pairwise_accuracy`; they see captions in lower case and without punctuation.
    """
    withheld_places = {key: read_places(photo, 1, str(seed)) for key, photo in photos.items()}
    human_captions = {key: photos[key].captions[places[0]] for key, places in withheld_places.items()}
    critics = critics or {}
    system_statistics: dict[str, CaptionStatistics] = {}
    human_scores: dict[str, Floats] = {}
    with task("measuring captions", total=len(systems) + 1) as advance:
        for system, system_captions in {HUMAN: human_captions, **systems}.items():
            places = read.get(system, withheld_places)
            scored_captions = [
                Caption(key, key, text, unread(photos[key], places.get(key, withheld_places[key])))
                for key, text in system_captions.items()
            ]
            critic_scores = _marked(scored_captions, critics)
            human_scores = human_scores or critic_scores
            discrimination = {critic: _area(human_scores[critic], critic_scores[critic]) for critic in critics}
            system_statistics[system] = replace(
                _described(scored_captions, references), pairwise_accuracy=discrimination
            )
            advance(1)
    return system_statistics


def _marked(rows: Sequence[Caption], critics: Mapping[str, Metric]) -> dict[str, Floats]:
    """Each critic's scores of these captions, which are spelled as in the training of LCEval."""
    if not critics:
        return {}
    respelled_captions = tokenise_sentences("ptb", [row.candidate for row in rows])
    captions = CaptionSet.from_captions(
        replace(row, candidate=" ".join(tokens)) for row, tokens in zip(rows, respelled_captions, strict=True)
    )
    results = score(captions, list(critics.values()))
    return {critic_name: results[str(critic)].items.array for critic_name, critic in critics.items()}


def _area(human_scores: Floats, machine_scores: Floats) -> float:
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(human_scores, machine_scores).statistic / (len(human_scores) * len(machine_scores)))


def _described(rows: Sequence[Caption], references: ReferenceNgrams) -> CaptionStatistics:
    tokenised_captions = [tokenise(row.candidate) for row in rows]
    word_count = sum(map(len, tokenised_captions))
    results = score(CaptionSet.from_captions(rows), ["cider-d"])
    return CaptionStatistics(
        captions=len(rows),
        perplexity=references.trigrams.perplexity(tokenised_captions),
        words=word_count / max(1, len(rows)),
        distinct_1=_distinct((word,) for caption_words in tokenised_captions for word in caption_words),
        distinct_2=_distinct(pair for caption_words in tokenised_captions for pair in pairwise(caption_words)),
        novel=sum(_plain(row.candidate) not in references.trained for row in rows) / max(1, len(rows)),
        cider_d=results["cider-d"].score,
    )


def _distinct(grams: Iterable[tuple[str, ...]]) -> float:
    all_grams = list(grams)
    return len(set(all_grams)) / max(1, len(all_grams))


def _plain(caption: str) -> str:
    """The words in lower case, without punctuation around them."""
    return " ".join(bare_word for word in caption.split() if (bare_word := word.strip(".,;:!?\"'()").lower()))
