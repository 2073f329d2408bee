"""Tables A.1 to A.3 of Sharif 2019: how captions are taken apart, and what that changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.runner import Evaluation
from capmeter_research.papers.subicap.captioner import Captioner, DecodingStrategy
from capmeter_research.papers.subicap.examples import CaptionedImages
from capmeter_research.papers.subicap.measures import described
from capmeter_research.papers.subicap.segmentation import Segmentation, plain, unaltered_length

WORDS, RARE = 16, 5
VOCABULARIES = (("unigram", 3078), ("unigram", 2079), ("unigram", 1085), ("unigram", 579), ("unigram", 335))
"""The vocabularies of Table A.1, beside words."""
OTHERS = (("bpe", 1076), ("char", 95))
"""The other segmentations of Table A.2."""


@dataclass(frozen=True)
class Length:
    """A row of Table A.1: a vocabulary, and the most tokens that leave 99 % of the captions unaltered."""

    segmentation: str
    entries: int
    longest: int


def token_lengths(captions: Sequence[str]) -> Iterator[Length]:
    """The rows of Table A.1, and of Table A.2 for BPE and characters.

    Captions are read as the paper's: in lower case, without punctuation, truncated to 16 words. Words are those that
    occur more than five times.

    Raises:
        InputError: there are too few captions for these vocabularies.
    """
    texts = [plain_text for caption in captions if (plain_text := plain(caption, WORDS))]
    if not texts:
        raise InputError("there is no caption to count; expected thousands")
    word_counts = Counter(word for plain_text in texts for word in plain_text.split())
    vocabulary_size = sum(count > RARE for count in word_counts.values())
    yield Length("word", vocabulary_size, unaltered_length([range(len(plain_text.split())) for plain_text in texts]))
    for kind, size in (*VOCABULARIES, *OTHERS):
        parts = Segmentation.learned(texts, kind, size)
        yield Length(kind, size if kind == "char" else len(parts), unaltered_length(parts.encode(texts)))


@dataclass(frozen=True)
class Segmented:
    """A row of Tables A.2 and A.3: a captioner, its sizes, and what its captions of unseen pictures are like.

    entries: of the vocabulary. longest: tokens that leave 99 % of the captions unaltered. parameters: numbers that are
    trained. words and distinct: of its captions. scores: of metrics, by name.
    """

    entries: int
    longest: int
    parameters: int
    words: float
    distinct: float
    scores: Mapping[str, float]


def segmented(
    captioner: Captioner, pictures: CaptionedImages, metrics: Sequence[Metric], settings: Settings | None = None
) -> Segmented:
    """What a captioner's captions of pictures are like, by beam search of width 5 as in the paper."""
    written_captions = captioner.write(pictures, DecodingStrategy(decode="beam"))
    captions = CaptionSet.from_captions(
        Caption(image_id, image_id, text, tuple(references))
        for image_id, text, references in zip(pictures.ids, written_captions, pictures.captions, strict=True)
    )
    results = Evaluation(tuple(metrics), settings or Settings()).with_collected_states(captions).run(captions)
    return Segmented(
        len(captioner.segmentation),
        captioner.longest,
        sum(values.numel() for values in captioner.module.parameters()),
        **described(written_captions),
        scores={metric_name: results[metric_name].score for metric_name in results},
    )
