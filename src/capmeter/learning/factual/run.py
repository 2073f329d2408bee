"""A whole run: from captions with graphs to the checkpoint of a graph maker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from capmeter.checkpoints import Checkpoint, TrainingData, load_checkpoint
from capmeter.encoders.bert import CONFIG, WEIGHTS
from capmeter.encoders.layers import Layer
from capmeter.encoders.models import find_encoder
from capmeter.errors import AssetError, InputError
from capmeter.learning.factual.evaluation import FactJudge
from capmeter.learning.factual.examples import (
    FactExample,
    Packed,
    kept_pieces,
    learn_spelling,
    learn_vocabulary,
    named_as_in_caption,
    pack,
    words_of,
)
from capmeter.learning.factual.network import FactModule, ReaderModule
from capmeter.learning.factual.training import FactLearner, FactRecipe
from capmeter.learning.loop import Outcome, Run, seeded
from capmeter.text.caption_parser import KIND as PARSER
from capmeter.text.fact_maker import KIND
from capmeter.text.fact_network import READER, WRITER
from capmeter.text.fact_pieces import WordPieces
from capmeter.text.fact_reader import ReaderShape
from capmeter.text.lemmas import LemmaRules
from capmeter.text.meteor_resources import english_synonyms

ENCODER = "minilm"
NAMED = "named"  # the folder of the last epochs, in that of the run
SHIPPED = 6100  # pieces in the checkpoint: those that no training caption has keep their values, and can be left out
_WORDS = "embeddings.word_embeddings.weight"
_WORD = "w:"  # the parser's feature of a word as a whole


def train_factual(
    examples: Sequence[FactExample],
    recipe: FactRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    parsed: Sequence[FactExample] = (),
    parser: str = PARSER,
    encoder: str = ENCODER,
    threads: int = 1,
    device: str = "cpu",
) -> Outcome:
    """Trains a graph maker on captions that are neither held out nor of dev, and writes its checkpoint.

    Args:
        examples: FACTUAL's captions.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the examples.
        parsed: captions with facts read from parses (`parsed_examples`), which the first epochs learn from.
        parser: the checkpoint of the caption parser whose lemmas are used.
        encoder: the BERT whose lower layers the reader begins as.
        threads: number of threads. Another number sums in another order and gives slightly different weights.
        device: a torch device. Weights made on a GPU are repeated nearly, not bit for bit.

    Raises:
        InputError: no training captions, or none held out.
    """
    torch.set_num_threads(threads)
    learned = [example for example in examples if example.split == "train" and not example.held_out]
    held_out = [example for example in examples if example.held_out]
    if not learned or not held_out:
        raise InputError(
            f"{len(examples)} captions give {len(learned)} training captions and {len(held_out)} held out; "
            "expected some of each: give more captions"
        )
    start, begun = load_checkpoint(parser, PARSER), Encoder.of(encoder)
    lemmas = LemmaRules(**start.parameters["lemmas"])
    seen = [each.removeprefix(_WORD) for each in start.vocabulary if each.startswith(_WORD)]
    spelling = learn_spelling([*learned, *parsed], begun.words, english_synonyms())
    vocabulary = learn_vocabulary(learned, lemmas, spelling)
    words = spelling.corrected(list(words_of(learned)))
    numbers = kept_pieces(begun.vocabulary, words, seen, recipe.pieces)
    pieces = WordPieces([begun.vocabulary[number] for number in numbers])
    shape = ReaderShape(recipe.reader_layers, begun.heads)

    seeded(recipe.seed)
    reader = begun.reader(numbers, shape, recipe)
    writers = [recipe.writer(2 * reader.width, len(vocabulary)) for _ in range(recipe.writers)]
    module = FactModule(reader, writers)

    def packed(captions: Sequence[FactExample]) -> dict[int, Packed]:
        return pack(captions, vocabulary, pieces, spelling, lemmas, recipe.shape.steps)

    learner = FactLearner(module, packed(learned), packed(held_out), recipe, packed(parsed))
    outcome = Run(learner, recipe, folder, description="training the graph maker", device=device).train()
    if recipe.named:
        module.load_state_dict({name: torch.from_numpy(values) for name, values in outcome.weights.items()})
        module = FactModule(reader, writers[: recipe.kept])
        nouns = FactJudge(english_synonyms())
        named, kept = (
            packed([named_as_in_caption(each, spelling, nouns.noun) for each in some]) for some in (learned, held_out)
        )
        learner, last = FactLearner(module, named, kept, recipe.last), "training it to name things as captions do"
        outcome = Run(learner, recipe.last, folder / NAMED, description=last, device=device).train()
    dropped = tuple(WRITER.format(number) for number in range(recipe.kept, recipe.writers))
    trained = {name: values for name, values in outcome.weights.items() if not name.startswith(dropped)}
    shipped = kept_pieces(begun.vocabulary, words, seen, min(recipe.pieces, SHIPPED))
    places = {number: place for place, number in enumerate(numbers)}
    trained[READER + "pieces"] = trained[READER + "pieces"][[places[number] for number in shipped]]
    Checkpoint(
        kind=KIND,
        parameters={
            "reader": asdict(shape),
            "writer": asdict(recipe.shape),
            "writers": min(recipe.kept, recipe.writers),
            "tokens": list(vocabulary.tokens),
            "frequent": spelling.frequent,
            "known": sorted(spelling.known),
            "lemmas": dict(start.parameters["lemmas"]),
        },
        weights={name: values.astype(np.float16) for name, values in trained.items()},
        vocabulary=tuple(begun.vocabulary[number] for number in shipped),
        data=tuple(data),
        training={
            **asdict(recipe),
            "reader": begun.label,
            "lemmas": start.label,
            "captions": len(learned),
            "parsed_captions": len(parsed),
            "threads": threads,
            "device": torch.device(device).type,
        },
        selection="the epoch with the most graphs written exactly on held-out training captions, not on dev",
        scores=outcome.scores,
    ).save(folder)
    return outcome


@dataclass(frozen=True, eq=False)
class Encoder:
    """A BERT whose lower layers the reader begins as.

    Args:
        label: its name and the hash of its weights.
        vocabulary: its word pieces, frequent ones first.
        weights: by BERT's names.
        heads: attention heads.
    """

    label: str
    vocabulary: list[str]
    weights: dict[str, Tensor]
    heads: int

    @classmethod
    def of(cls, name: str) -> Encoder:
        """An installed encoder.

        Raises:
            AssetError: it is not installed, or is no BERT.
        """
        found = find_encoder(name)
        if found.adapts is not None:
            raise AssetError(f"encoder {name!r}: an adapted encoder is not read here; name {found.adapts}")
        try:
            pieces = json.loads((found.folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
            heads = json.loads((found.folder / CONFIG).read_text(encoding="utf-8"))["num_attention_heads"]
            weights = load_file(str(found.folder / WEIGHTS))
            weights = {name.removeprefix("bert."): values.float() for name, values in weights.items()}
            vocabulary = sorted(pieces, key=pieces.__getitem__)
            return cls(found.label, vocabulary, weights, int(heads))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AssetError(f"encoder {name!r}: not a BERT with word pieces ({error!r}); name another one") from error

    @property
    def words(self) -> list[str]:
        """Its pieces that are whole words."""
        return [piece for piece in self.vocabulary if piece.isalpha() and piece.isascii()]

    def reader(self, kept: Sequence[int], shape: ReaderShape, recipe: FactRecipe) -> ReaderModule:
        """The reader that begins as its lower layers, with some of its pieces."""
        weights = self.weights
        width, hidden = weights[_WORDS].shape[1], len(weights["encoder.layer.0.intermediate.dense.bias"])
        reader = ReaderModule(len(kept), shape, width, hidden, dropout=recipe.dropout, word_dropout=recipe.word_dropout)
        places, kinds = (weights[f"embeddings.{part}_embeddings.weight"] for part in ("position", "token_type"))
        start = {"pieces": weights[_WORDS][list(kept)], "places": places[: shape.places] + kinds[0]}
        start |= {f"norm.{part}": weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias")}
        for number in range(shape.layers):
            layer = Layer.of(weights, f"encoder.layer.{number}.", shape.heads)
            for part, (weight, bias) in vars(layer).items():
                start |= {f"layers.{number}.{part}.weight": weight, f"layers.{number}.{part}.bias": bias}
        reader.load_state_dict(start)
        return reader
