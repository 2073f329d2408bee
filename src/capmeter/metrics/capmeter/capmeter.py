"""`capmeter`: how far one can trust a caption, in one number and the three that explain it.

    score = σ(λ_0 cos + (1 - true) λ_1 things + true (λ_2 + λ_3 σ(coverage) + λ_4 σ(fluency)) + λ_5 σ(fluency + 8))
    true = σ(correctness)

**Correctness**: what the caption says that the references support. **Coverage**: what the references agree on that
the caption says. **Fluency**: whether it is well said; of the caption alone. **cos**: the cosine of the caption with
the mean of the references. **Things**: how near the words that name something come to words of the references, which
decides where a caption is wrong. Correctness, coverage and fluency are logits of heads of one small network
(`network.py`), in which the word pieces of the candidate and of all references look at each other. Its encoder was
adapted to captions (`minilm-captions`). Range 0 to 1: .5 means that a caption is as likely right as wrong in
something, as measured on captions made wrong that training did not see; parts are calibrated in the same way, on the
errors that concern them. The corpus score is the mean.

Which words are wrong is told by a second, smaller network (`Judge`), which does nothing but that, and only where it is
asked for (`explain`): it reads states of the encoder half way up, where they still are those of words more than of the
sentence, of layers that were adapted to this alone.

From one reference to fifty; a caption's score depends on nothing but the caption and its references. Final punctuation
is not read. An empty candidate scores 0.

Encoder and network were trained on captions alone: captions of more and less similar photos, whose target is how
similar all captions of the two photos are, and captions made wrong in every way that `capmeter.transforms` knows, and
in some more. No human judgment was trained on. How it was chosen, and every try: docs/own-metric.md. `checkpoint`
names a network that `capmeter train capmeter` made, on any encoder.

>>> import capmeter
>>> references = ["a dog runs on the grass", "a brown dog is running outside"]
>>> right, wrong = capmeter.score(
...     candidates=["a dog runs outside", "two cats sleep on a sofa"], references=[references] * 2, metrics="capmeter"
... )["capmeter"].items.values()
>>> right > 0.5 > wrong
True
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from capmeter.assets import find_checkpoint
from capmeter.captions.model import CaptionSet
from capmeter.checkpoints import load_checkpoint
from capmeter.encoders import (
    Encoder,
    EncoderFiles,
    StateTable,
    adapted_files,
    find_encoder,
    load_encoder,
    load_files,
    software,
)
from capmeter.encoders.adaptation import LAYERS
from capmeter.encoders.side_by_side import side_by_side, torch_threads
from capmeter.errors import AssetError
from capmeter.metrics.base import Context, Floats, MeanMetric, Measurement
from capmeter.metrics.capmeter.inputs import Block, Encoded, Words, plain, read_blocks, side
from capmeter.metrics.capmeter.knowledge import Knowledge, is_of_knowledge
from capmeter.metrics.capmeter.language_model import LanguageModel
from capmeter.metrics.capmeter.words import bare, judge_words, words_of_pieces
from capmeter.metrics.evidence import Evidence
from capmeter.metrics.image_text import blank, cut_note
from capmeter.ragged import Ragged
from capmeter.settings import Settings
from capmeter.text.concepts import concept

if TYPE_CHECKING:
    from capmeter.metrics.capmeter.network import Judge, Matcher, Told

KIND = "capmeter"
PARTS = ("score", "correctness", "coverage", "fluency")
RIGHT = "right"
"""The calibration of single words."""
JUDGE = "judge."
"""What the names of the arrays of the network that judges words begin with in a checkpoint, and those of the adaptation
of the layers that it reads.
"""
_NEAR = 0.6  # a concept whose word has so high a cosine in the candidate is said there in other words


@dataclass(frozen=True, eq=False)
class Trained:
    """Both networks, their language model, what is known of word pieces, the encoder that the matcher reads, the files
    of the judge's, the first one's hash, their layers, and for each logit the slope and offset that calibrate it.
    """

    network: Matcher
    judge: Judge
    language: LanguageModel
    words: Words
    encoder: str
    judge_encoder: EncoderFiles
    layer: int
    judge_layer: int
    sha256: str
    calibration: Mapping[str, tuple[float, float]]
    label: str

    def probability(self, part: str, logits: Any) -> Floats:
        """σ(slope · logit + offset)."""
        slope, offset = self.calibration[part]
        made: Floats = 0.5 * (1 + np.tanh(0.5 * (slope * np.asarray(logits, np.float64) + offset)))
        return made

    def parts(self, told: Told) -> Floats:
        """The calibrated score and its parts, [n, 4]: see `PARTS`."""
        return np.stack([self.probability(name, getattr(told, name).cpu().numpy()) for name in PARTS], axis=1)


@dataclass(frozen=True, kw_only=True)
class Capmeter(MeanMetric):
    """Correctness, coverage and fluency of a caption, and the score that they make.

    checkpoint: name or folder of a trained network. encoder: where its encoder is, if that has another name here.
    """

    NAME: ClassVar[str] = "capmeter"
    SUMMARY: ClassVar[str] = "correctness, coverage and fluency by a network that was trained on captions alone"
    EXTRA: ClassVar[str | None] = "neural"
    ROWS: ClassVar[int] = 2048
    columns: ClassVar[tuple[str, ...]] = PARTS

    checkpoint: Annotated[str | None, "name or folder of a trained network; none: the one that ships"] = None
    encoder: Annotated[str | None, "alias, hub id or folder of its encoder; none: the one that it names"] = None

    def measure(self, part: CaptionSet, context: Context) -> Measurement:
        """The score and its parts of each caption."""
        trained = self._trained(context.settings)
        read = _Read.of(part, trained, context.settings)
        values = np.zeros((len(part), len(PARTS)))
        for rows, told in read.told(trained, context.settings):
            values[rows] = trained.parts(told)
        values[blank(part)] = 0.0
        return Measurement(values, read.notes(part))

    def told(self, part: CaptionSet, context: Context) -> dict[str, Floats]:
        """The logit of the score of each caption, and what it is made of before calibration (`network.py`): the logits
        of correctness, coverage and fluency, the cosine, and things.
        """
        from capmeter.metrics.capmeter.network import SCORED

        trained = self._trained(context.settings)
        found = {name: np.zeros(len(part)) for name in ("score", *SCORED)}
        for rows, told in _Read.of(part, trained, context.settings).told(trained, context.settings):
            for name, values in found.items():
                values[rows] = getattr(told, name).cpu().numpy()
        return found

    def facts(self, context: Context) -> dict[str, str]:
        """The network, the encoder's weights, the layer and the libraries."""
        trained = self._trained(context.settings)
        found = {"network": trained.label, "weights": trained.sha256[:12], "layer": str(trained.layer)}
        return found | {"software": software(trained.encoder), "precision": context.settings.precision}

    def explain(self, part: CaptionSet, context: Context) -> list[Evidence]:
        """The words that the references support, do not support, or contradict, and what is missing."""
        trained = self._trained(context.settings)
        read = _Read.of(part, trained, context.settings)
        encoder = load_encoder(trained.encoder, context.settings)
        found: list[Evidence] = [Evidence((), ())] * len(part)
        parts = np.zeros((len(part), len(PARTS)))
        for rows, told in read.told(trained, context.settings):
            parts[rows] = trained.parts(told)
        parts[blank(part)] = 0.0
        for row, logits in read.judged(trained, context.settings):
            caption = part[part.ids[row]]
            candidate = caption.candidate.split()
            probabilities = trained.probability(RIGHT, logits)
            right = word_probabilities(encoder, plain(caption.candidate), probabilities, len(candidate))
            references = [reference.split() for reference in caption.references]
            judged = judge_words(candidate, right, references, read.near(row, encoder))
            facts: dict[str, float | str] = dict(zip(PARTS[1:], parts[row, 1:].tolist(), strict=True))
            found[row] = Evidence(
                judged.candidate,
                judged.references,
                judged.links(),
                judged.marks(),
                facts | judged.sentences(),
                word_scores=tuple(right),
            )
        return found

    def _trained(self, settings: Settings) -> Trained:
        name = self.checkpoint or KIND
        folder = find_checkpoint(name)
        stamp = 0 if folder is None else (folder / "checkpoint.json").stat().st_mtime_ns
        return _load(name, self.encoder, str(folder), stamp, settings.precision)


@dataclass(frozen=True, eq=False)
class _Read:
    """The captions of a part as the network reads them: sentences without final punctuation, each encoded once."""

    encoded: Encoded
    candidates: NDArray[np.int64]
    references: Ragged

    @classmethod
    def of(cls, part: CaptionSet, trained: Trained, settings: Settings) -> _Read:
        numbers: dict[str, int] = {}
        place = np.array([numbers.setdefault(plain(each), len(numbers)) for each in part.pool.sentences], np.int64)
        encoded = Encoded.of(tuple(numbers), trained.encoder, trained.layer, settings)
        return cls(encoded, place[part.candidates], Ragged(place[part.references.values], part.references.offsets))

    def told(self, trained: Trained, settings: Settings) -> Iterator[tuple[NDArray[np.int64], Told]]:
        """What the network says, in blocks: (rows, Told)."""
        import torch

        from capmeter.encoders.encoder import device_name

        device = device_name(settings.device)
        network = trained.network.to(device)

        def said(block: Block) -> tuple[NDArray[np.int64], Told]:
            rows, mine, theirs, similar = block
            with torch.inference_mode():
                inputs = (torch.from_numpy(each).to(device) for each in (similar, trained.language.flow(mine)))
                told: Told = network(side(mine, trained.words, device), side(theirs, trained.words, device), *inputs)
            return rows, told

        threads = (settings.threads or torch_threads()) if device == "cpu" else 1
        yield from side_by_side(said, self.encoded.batches(self.candidates, self.references), threads)

    def judged(self, trained: Trained, settings: Settings) -> Iterator[tuple[int, Floats]]:
        """Of each caption its row, and the logits of its word pieces being right."""
        import torch

        from capmeter.encoders.encoder import device_name

        device = device_name(settings.device)
        judge, pieces = trained.judge.to(device), self.encoded.table.pieces
        lower = load_files(trained.judge_encoder, settings).hidden_states(pieces, trained.judge_layer)
        for rows, mine, theirs in read_blocks(self.candidates, StateTable(pieces, lower), self.references):
            with torch.inference_mode():
                flow = torch.from_numpy(trained.language.flow(mine)).to(device)
                right = judge(side(mine, trained.words, device), side(theirs, trained.words, device), flow).cpu()
            for row, logits, word in zip(rows.tolist(), right.numpy(), mine.word, strict=True):
                yield row, logits[word]

    def near(self, row: int, encoder: Encoder) -> set[str]:
        """The concepts of the references that the candidate says in other words."""
        table = self.encoded.table
        mine = table.unit_row(int(self.candidates[row]))[1:-1]
        found: set[str] = set()
        for reference in self.references[row].tolist() if len(mine) else ():
            tokens = encoder.tokens(table.pieces[reference][1:-1])
            nearest = (table.unit_row(reference)[1:-1] @ mine.T).max(axis=1)
            for token, cosine in zip(tokens, nearest.tolist(), strict=True):
                word = bare(encoder.word_of(token))
                if cosine >= _NEAR and word and (name := concept(word)) is not None:
                    found.add(name)
        return found

    def notes(self, part: CaptionSet) -> dict[str, list[str]]:
        """The captions with a sentence that was truncated."""
        cut = self.encoded.table.pieces.truncated
        long = cut[self.candidates].copy()
        np.logical_or.at(long, self.references.rows, cut[self.references.values])
        return cut_note(part, long)


def word_probabilities(encoder: Encoder, sentence: str, right: Floats, count: int) -> list[float]:
    """Of each of so many words the probability that it is right: that of its worst piece; 1 where nothing is known."""
    found = np.ones(count)
    places = words_of_pieces(encoder, sentence, len(right))
    for place, probability in zip(places or (), right.tolist(), strict=False):
        if place < count:
            found[place] = min(found[place], probability)
    each: list[float] = found.tolist()
    return each


@lru_cache(maxsize=8)
def _load(name: str, encoder: str | None, place: str, stamp: int, precision: str) -> Trained:
    import torch

    from capmeter.metrics.capmeter.network import Judge, JudgeShape, Matcher, Shape

    found = load_checkpoint(name, KIND)
    try:
        parameters = found.parameters
        network, judge = Matcher(Shape(**parameters["shape"])), Judge(JudgeShape(**parameters["judge"]))
        weights = {
            key: torch.from_numpy(np.asarray(each, np.float32))
            for key, each in found.weights.items()
            if not is_of_knowledge(key)
        }
        of_judge = {key.removeprefix(JUDGE): weights.pop(key) for key in list(weights) if key.startswith(JUDGE)}
        adapted = {key for key in of_judge if key.startswith(LAYERS)}
        network.load_state_dict(weights)
        judge.load_state_dict({key: each for key, each in of_judge.items() if key not in adapted})
        known = Knowledge.from_weights(found.weights)
        calibration = {key: (float(slope), float(offset)) for key, (slope, offset) in parameters["calibration"].items()}
        trained_on = str(parameters["encoder"])
        layer, judge_layer = (int(parameters[key]) for key in ("layer", "judge_layer"))
        expected = str(parameters["encoder_sha256"])
        missing = {*PARTS, RIGHT} - set(calibration)
        if missing:
            raise KeyError(f"calibration of {', '.join(sorted(missing))}")
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise AssetError(f"capmeter: the checkpoint {name} is not a network of this metric ({error})") from error
    files = find_encoder(encoder or trained_on)
    if files.sha256 != expected:
        raise AssetError(
            f"capmeter: {name} was trained on the encoder {trained_on} ({expected[:12]}), but {encoder or trained_on} "
            f"is another ({files.sha256[:12]}); name the folder of the same encoder, or train on this one: capmeter "
            "train capmeter --encoder"
        )
    words = known.words(load_encoder(encoder or trained_on, Settings(device="cpu")))
    lower = find_encoder(files.unadapted)
    if adapted:
        lower = adapted_files(lower, Path(place), found.sha256, name=f"{lower.name} of {name}'s judge", prefix=JUDGE)
    return Trained(
        network=network.eval(),
        judge=judge.eval(),
        language=known.language,
        words=words,
        encoder=encoder or trained_on,
        judge_encoder=lower,
        layer=layer,
        judge_layer=judge_layer,
        sha256=expected,
        calibration=calibration,
        label=found.label,
    )
