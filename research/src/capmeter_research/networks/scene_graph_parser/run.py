"""Trains the scene-graph parser: from captions with graphs to a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from capmeter.core.checkpoints import Checkpoint, TrainingData, load_checkpoint
from capmeter.core.errors import AssetError, InputError
from capmeter.encoders.handle import EncoderHandle, find_encoder
from capmeter.encoders.text.bert import CONFIG, WEIGHTS
from capmeter.encoders.text.layers import STORED_NAMES, TransformerLayer
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.parsing.caption_parser import KIND as PARSER
from capmeter.text.parsing.lemmas import LemmaRules
from capmeter_research.common.loop import Outcome, Run, Weights, set_seed
from capmeter_research.networks.scene_graph_parser.evaluation import SceneGraphEvaluator
from capmeter_research.networks.scene_graph_parser.examples import SceneGraphExample, name_as_in_caption
from capmeter_research.networks.scene_graph_parser.factual_parser import KIND
from capmeter_research.networks.scene_graph_parser.forward import DECODER_PREFIX, ENCODER_PREFIX, SentenceEncoderShape
from capmeter_research.networks.scene_graph_parser.network import SceneGraphModule, SentenceEncoderModule
from capmeter_research.networks.scene_graph_parser.packing import (
    CaptionPacker,
    count_words,
    learn_spelling,
    learn_vocabulary,
    select_word_pieces,
)
from capmeter_research.networks.scene_graph_parser.training import SceneGraphLearner, SceneGraphRecipe
from capmeter_research.networks.scene_graph_parser.triples import WordPieceVocabulary

ENCODER = "minilm"
NAMING_FOLDER = "naming"  # of the last epochs, in that of the run
CHECKPOINT_PIECES = 6100  # pieces without training captions keep their pretrained vectors, and can be left out
_WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
_WORD_PREFIX = "w:"  # of the caption parser's features that are words


def train_scene_graph_parser(
    examples: Sequence[SceneGraphExample],
    recipe: SceneGraphRecipe,
    folder: Path,
    *,
    data: Sequence[TrainingData],
    parsed: Sequence[SceneGraphExample] = (),
    threads: int = 1,
    device: str = "cpu",
) -> Outcome:
    """Trains a scene-graph parser on captions that are neither held out nor of dev, and writes its checkpoint.

    Args:
        examples: FACTUAL's captions.
        recipe: settings.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the examples.
        parsed: captions with triples from parses (`sample_parsed_examples`), for the first epochs.
        threads: number of threads; it changes the order of sums, and so the weights slightly.
        device: a torch device. On a GPU, weights are reproduced approximately, not bit for bit.

    Raises:
        InputError: no training captions, or none held out.
    """
    torch.set_num_threads(threads)
    training_examples = [example for example in examples if example.split == "train" and not example.held_out]
    held_out = [example for example in examples if example.held_out]
    if not training_examples or not held_out:
        raise InputError(
            f"{len(examples)} captions give {len(training_examples)} training captions and {len(held_out)} held out; "
            "expected some of each: give more captions"
        )
    caption_parser, pretrained = load_checkpoint(PARSER, PARSER), PretrainedEncoder.load(find_encoder(ENCODER))
    resources = _learn_resources(training_examples, parsed, caption_parser, pretrained, recipe)
    outcome = _train_epochs(training_examples, held_out, parsed, resources, recipe, folder, device)
    training = {
        **asdict(recipe),
        "reader": pretrained.label,
        "lemmas": caption_parser.label,
        "captions": len(training_examples),
        "parsed_captions": len(parsed),
        "threads": threads,
        "device": torch.device(device).type,
    }
    _build_checkpoint(outcome, resources, recipe, data, training).save(folder)
    return outcome


@dataclass(frozen=True, eq=False)
class _Resources:
    """What is known before training."""

    pretrained: PretrainedEncoder  # the pretrained encoder
    piece_ids: list[int]  # its pieces that are trained with, and `checkpoint_piece_ids`, those of the checkpoint
    checkpoint_piece_ids: list[int]
    shape: SentenceEncoderShape  # of the encoder
    packer: CaptionPacker  # with vocabularies, spelling and lemmas
    lemma_rules: Mapping[str, Any]  # the parameters of the lemmas


def _learn_resources(
    train: Sequence[SceneGraphExample],
    parsed: Sequence[SceneGraphExample],
    caption_parser: Checkpoint,
    pretrained: PretrainedEncoder,
    recipe: SceneGraphRecipe,
) -> _Resources:
    lemma_rules = caption_parser.parameters["lemmas"]
    lemmas = LemmaRules(**lemma_rules)
    parser_words = [
        feature_name.removeprefix(_WORD_PREFIX)
        for feature_name in caption_parser.vocabulary
        if feature_name.startswith(_WORD_PREFIX)
    ]
    spelling = learn_spelling([*train, *parsed], pretrained.words, load_english_synonyms())
    caption_words = spelling.correct(list(count_words(train)))
    piece_ids, checkpoint_piece_ids = (
        select_word_pieces(pretrained.vocabulary, caption_words, parser_words, piece_count)
        for piece_count in (recipe.pieces, min(recipe.pieces, CHECKPOINT_PIECES))
    )
    packer = CaptionPacker(
        learn_vocabulary(train, lemmas, spelling),
        WordPieceVocabulary([pretrained.vocabulary[piece_id] for piece_id in piece_ids]),
        spelling,
        lemmas,
        recipe.shape.steps,
    )
    shape = SentenceEncoderShape(recipe.encoder_layers, pretrained.heads)
    return _Resources(pretrained, piece_ids, checkpoint_piece_ids, shape, packer, lemma_rules)


def _train_epochs(
    train: Sequence[SceneGraphExample],
    held_out: Sequence[SceneGraphExample],
    parsed: Sequence[SceneGraphExample],
    resources: _Resources,
    recipe: SceneGraphRecipe,
    folder: Path,
    device: str,
) -> Outcome:
    """Trains on the graphs as they are, then on graphs with entities named as in the caption."""
    packer = resources.packer
    set_seed(recipe.seed)
    encoder = resources.pretrained.build_encoder(resources.piece_ids, resources.shape, recipe)
    decoders = [recipe.build_decoder(2 * encoder.width, len(packer.vocabulary)) for _ in range(recipe.decoders)]
    module = SceneGraphModule(encoder, decoders)
    learner = SceneGraphLearner(module, packer.pack(train), packer.pack(held_out), recipe, packer.pack(parsed))
    outcome = Run(learner, recipe, folder, description="training the scene-graph parser", device=device).train()
    if not recipe.naming_epochs:
        return outcome
    module.load_state_dict({weight_name: torch.from_numpy(values) for weight_name, values in outcome.weights.items()})
    module = SceneGraphModule(encoder, decoders[: recipe.kept_decoders])
    base_form = SceneGraphEvaluator(load_english_synonyms()).base_noun
    renamed_examples, renamed_held_out = (
        packer.pack([name_as_in_caption(example, packer.spelling, base_form) for example in examples])
        for examples in (train, held_out)
    )
    learner = SceneGraphLearner(module, renamed_examples, renamed_held_out, recipe.naming)
    description = "training it to name entities as in the caption"
    return Run(learner, recipe.naming, folder / NAMING_FOLDER, description=description, device=device).train()


def _build_checkpoint(
    outcome: Outcome,
    resources: _Resources,
    recipe: SceneGraphRecipe,
    data: Sequence[TrainingData],
    training: Mapping[str, Any],
) -> Checkpoint:
    packer, pretrained = resources.packer, resources.pretrained
    dropped_prefixes = tuple(DECODER_PREFIX.format(number) for number in range(recipe.kept_decoders, recipe.decoders))
    weights: Weights = {
        name: values for name, values in outcome.weights.items() if not name.startswith(dropped_prefixes)
    }
    row_by_piece = {number: k for k, number in enumerate(resources.piece_ids)}
    piece_rows = [row_by_piece[number] for number in resources.checkpoint_piece_ids]
    weights[ENCODER_PREFIX + "pieces"] = weights[ENCODER_PREFIX + "pieces"][piece_rows]
    return Checkpoint(
        kind=KIND,
        parameters={
            "reader": asdict(resources.shape),
            "writer": asdict(recipe.shape),
            "writers": min(recipe.kept_decoders, recipe.decoders),
            "tokens": list(packer.vocabulary.tokens),
            "frequent": packer.spelling.frequent,
            "known": sorted(packer.spelling.rare),
            "lemmas": dict(resources.lemma_rules),
        },
        weights={name: values.astype(np.float16) for name, values in weights.items()},
        vocabulary=tuple(pretrained.vocabulary[number] for number in resources.checkpoint_piece_ids),
        data=tuple(data),
        training=training,
        selection="the epoch with the most exact graphs of held-out training captions, not of dev",
        scores=outcome.scores,
    )


@dataclass(frozen=True, eq=False)
class PretrainedEncoder:
    """A BERT whose lower layers initialise the encoder."""

    label: str  # its name and the hash of its weights
    vocabulary: list[str]  # its word pieces, frequent ones first
    weights: dict[str, Tensor]  # by BERT's names
    heads: int  # number of attention heads

    @classmethod
    def load(cls, encoder: EncoderHandle) -> PretrainedEncoder:
        """The weights of an encoder.

        Raises:
            AssetError: it is adapted, or is not a BERT.
        """
        if encoder.base is not None:
            raise AssetError(f"encoder {encoder.name!r} is adapted; name its base {encoder.base.name}")
        try:
            piece_ids = json.loads((encoder.folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
            heads = json.loads((encoder.folder / CONFIG).read_text(encoding="utf-8"))["num_attention_heads"]
            weights = load_file(str(encoder.folder / WEIGHTS))
            weights = {weight_name.removeprefix("bert."): values.float() for weight_name, values in weights.items()}
            vocabulary = sorted(piece_ids, key=piece_ids.__getitem__)
            return cls(encoder.label, vocabulary, weights, int(heads))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AssetError(
                f"encoder {encoder.name!r}: not a BERT with word pieces ({error!r}); name another one"
            ) from error

    @property
    def words(self) -> list[str]:
        """Its pieces that are whole words."""
        return [piece for piece in self.vocabulary if piece.isalpha() and piece.isascii()]

    def build_encoder(
        self, piece_ids: Sequence[int], shape: SentenceEncoderShape, recipe: SceneGraphRecipe
    ) -> SentenceEncoderModule:
        """An encoder with the weights of the lower layers, and some of the word pieces.

        Args:
            piece_ids: of the pieces.
            shape: number of layers, heads and positions.
            recipe: rates of dropout.
        """
        weights = self.weights
        width, hidden = weights[_WORD_EMBEDDINGS].shape[1], len(weights["encoder.layer.0.intermediate.dense.bias"])
        encoder = SentenceEncoderModule(
            len(piece_ids), shape, width, hidden, dropout=recipe.dropout, word_dropout=recipe.word_dropout
        )
        positions, kinds = (weights[f"embeddings.{part}_embeddings.weight"] for part in ("position", "token_type"))
        state = {"pieces": weights[_WORD_EMBEDDINGS][list(piece_ids)], "places": positions[: shape.places] + kinds[0]}
        state |= {f"norm.{part}": weights[f"embeddings.LayerNorm.{part}"] for part in ("weight", "bias")}
        for number in range(shape.layers):
            layer = TransformerLayer.from_weights(weights, f"encoder.layer.{number}.", shape.heads)
            for name, (weight, bias) in zip(STORED_NAMES.values(), vars(layer).values(), strict=True):
                state |= {f"layers.{number}.{name}.weight": weight, f"layers.{number}.{name}.bias": bias}
        encoder.load_state_dict(state)
        return encoder
