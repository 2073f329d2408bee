"""MIMA on text that gradually turns into noise (SMURF, section 4.1 and Figure 5).

Sentences are sampled from a text. An increasing fraction of the words of each is replaced by random words of the
text's vocabulary; a replaced word stays replaced. The mean MIMA is taken at every step: a good language model should
find each step less typical than the previous one. Beside it stands the mean distance from the typical set, of which the
paper holds that f_MIMA is proportional to its negative (Eq. 4 and 5):

    D_typical(y) = ‖F(y) − E[F(x)]‖

F is the largest information flow of each layer of the encoder, and x are the sampled sentences themselves, but y's own.

>>> replace_words("two dogs run along".split(), ["x", "y"], [0, 0.5, 1], np.random.default_rng(1))
['two dogs run along', 'x x run along', 'x x y y']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capmeter.captions.load import load
from capmeter.captions.sources import CaptionSource
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.encoders.handle import find_encoder
from capmeter.encoders.text.encoder import load_encoder
from capmeter.evaluation.base import Floats
from capmeter.report.figures import house_style, open_figure, series_style
from capmeter.report.tables import Table
from capmeter.stats.bootstrap import bootstrap_interval, mean_statistic
from capmeter_research.papers.smurf.mima import layer_flow

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_LEAST_WORDS = 4


@dataclass(frozen=True, eq=False)
class DegradationStudy:
    """Mean MIMA at each fraction of replaced words, with the interval over sentences, and the mean distance from the
    typical set: per encoder float64[steps]."""

    fractions: Floats
    sentences: int
    means: dict[str, Floats]
    low: dict[str, Floats]
    high: dict[str, Floats]
    distances: dict[str, Floats]
    example: tuple[str, ...]


def read_sentences(path: str, columns: Mapping[str, str] | None = None) -> list[str]:
    """The sentences of a plain text (`.txt`), or the captions of a file in any other format."""
    if path.lower().endswith((".txt", ".txt.gz")):
        lines = (line.strip() for line in CaptionSource.resolve(path).read_text().splitlines())
        sentences = [sentence for line in lines if line for sentence in _SENTENCE_END.split(line)]
    else:
        captions = load(path, on_missing="keep", columns=columns)
        sentences = [captions.pool[int(index)] for index in captions.candidates]
    if not sentences:
        raise InputError(f"{path} contains no sentence")
    return sentences


def replace_words(
    words: Sequence[str], vocabulary: Sequence[str], fractions: Sequence[float], draws: np.random.Generator
) -> list[str]:
    """A sentence with each of several fractions of its words replaced, cumulatively.

    Args:
        words: of the sentence.
        vocabulary: the words that replace them.
        fractions: 0 to 1, one for each result.
        draws: of positions and words.
    """
    word_order = draws.permutation(len(words))
    random_words = [vocabulary[k] for k in draws.integers(len(vocabulary), size=len(words))]
    step_texts = []
    for fraction in fractions:
        replaced_positions = set(word_order[: round(fraction * len(words))].tolist())
        step_texts.append(
            " ".join(random_words[k] if k in replaced_positions else word for k, word in enumerate(words))
        )
    return step_texts


def degradation(
    sentences: Sequence[str],
    encoders: Sequence[str],
    *,
    sample: int = 25,
    steps: int = 20,
    seed: int = 0,
    resamples: int = 1000,
    settings: Settings | None = None,
) -> DegradationStudy:
    """MIMA of sentences whose words are replaced step by step, from none to all.

    Args:
        sentences: to sample from.
        encoders: names.
        sample: number of sentences.
        steps: number of steps from no word replaced to all.
        seed: of sentences, words and resamples.
        resamples: number of bootstrap resamples.
        settings: where encoders run.

    Raises:
        InputError: fewer than two sentences are long enough.
    """
    random = np.random.default_rng(seed)
    long_sentences = [
        words for words in (sentence.split() for sentence in dict.fromkeys(sentences)) if len(words) >= _LEAST_WORDS
    ]
    if len(long_sentences) < 2:
        raise InputError(
            f"expected two different sentences of at least {_LEAST_WORDS} words, or more, but got {len(long_sentences)}"
        )
    vocabulary = sorted({word for sentence in sentences for word in sentence.split()})
    sampled_indices = random.permutation(len(long_sentences))[:sample]
    fractions = np.linspace(0, 1, steps + 1)
    sentence_rows = [replace_words(long_sentences[k], vocabulary, fractions.tolist(), random) for k in sampled_indices]
    texts = [text for step_texts in sentence_rows for text in step_texts]
    means, low, high, distances = {}, {}, {}, {}
    for name in encoders:
        encoder = load_encoder(find_encoder(name), settings or Settings())
        flow, _ = layer_flow(texts, encoder, content_only=False)
        flow = flow.reshape(len(sentence_rows), steps + 1, -1)
        scores = 1 - np.median(flow, axis=2)
        means[name], distances[name] = scores.mean(axis=0), typical_distance(flow).mean(axis=0)
        rows = range(len(sentence_rows))
        intervals = [bootstrap_interval(mean_statistic(column), rows, resamples, seed) for column in scores.T]
        low[name] = np.array([each.low for each in intervals])
        high[name] = np.array([each.high for each in intervals])
    return DegradationStudy(fractions, len(sentence_rows), means, low, high, distances, tuple(sentence_rows[0]))


def typical_distance(flow: Floats) -> Floats:
    """D_typical of each sentence at each step, (n, steps).

    Args:
        flow: F, (n, steps, layers), of two sentences or more; the first step is the sentence itself.
    """
    originals = flow[:, :1]
    expected = (originals.sum(axis=0) - originals) / (len(flow) - 1)
    distance: Floats = np.linalg.norm(flow - expected, axis=2)
    return distance


def degradation_table(study: DegradationStudy) -> Table:
    """One row per fraction of replaced words, one column per encoder."""
    table_rows = [
        [
            f"{fraction:.0%}",
            *(
                cell
                for encoder in study.means
                for cell in (
                    f"{study.means[encoder][k]:.4f} [{study.low[encoder][k]:.4f}, {study.high[encoder][k]:.4f}]",
                    f"{study.distances[encoder][k]:.4f}",
                )
            ),
        ]
        for k, fraction in enumerate(study.fractions)
    ]
    title = f"mean MIMA of {study.sentences} sentences as words are replaced at random"
    note = "in brackets: 95% interval, sentences resampled; D_typical: Eq. 4; the paper has a curve alone (Figure 5)"
    heads = ["replaced", *(head for encoder in study.means for head in (encoder, "D_typical"))]
    return Table(title, heads, table_rows, [True] * len(heads), note)


def degradation_to_dict(study: DegradationStudy) -> dict[str, Any]:
    """The same for a program, with one sentence at every step."""
    return {
        "sentences": study.sentences,
        "fractions": study.fractions.tolist(),
        "encoders": {
            encoder: {
                "mima": study.means[encoder].tolist(),
                "low": study.low[encoder].tolist(),
                "high": study.high[encoder].tolist(),
                "distance": study.distances[encoder].tolist(),
            }
            for encoder in study.means
        },
        "example": list(study.example),
    }


def degradation_figure(study: DegradationStudy) -> Any:
    """Mean MIMA over the fraction of replaced words, one line per encoder."""
    figure, axes = open_figure(width=6.4, height=4.0)
    with house_style():
        panel = axes[0, 0]
        percent = 100 * study.fractions
        for series_index, encoder in enumerate(study.means):
            style = series_style(series_index)
            panel.fill_between(percent, study.low[encoder], study.high[encoder], color=style["color"], alpha=0.15, lw=0)
            panel.plot(percent, study.means[encoder], label=encoder, **style)
        panel.set_xlim(0, 100)
        panel.set_xlabel("words replaced at random (%)")
        panel.set_ylabel("mean MIMA")
        panel.set_title(f"{study.sentences} sentences turning into noise; bands: 95% intervals")
        panel.legend(loc="best")
    return figure
