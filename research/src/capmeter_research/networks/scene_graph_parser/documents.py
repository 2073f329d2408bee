"""Trains the scene-graph parser's network for documents on graphs that annotators wrote of whole documents (DiscoSG).

A document's triples are divided among its sentences, as the parser reads them (pronouns replaced by what they refer
to): each goes to the sentence that mentions both of its ends nearest to each other, with words of its predicate.
Triples whose ends are in no sentence are left out (11 % of DiscoSG's), and sentences without any are examples with an
empty graph: they are about the picture, not about what it shows. The network starts from that for captions, and all
layers but the word embeddings are trained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capmeter.core.checkpoints import Checkpoint, TrainingData, load_checkpoint
from capmeter.core.errors import InputError
from capmeter.core.progress import report_progress
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter_research.common.loop import Run, set_seed
from capmeter_research.common.parsed_captions import read_json_rows
from capmeter_research.networks.scene_graph_parser.evaluation import SceneGraphEvaluator
from capmeter_research.networks.scene_graph_parser.examples import SceneGraphExample, name_as_in_caption
from capmeter_research.networks.scene_graph_parser.factual_parser import (
    DOCUMENT_KIND,
    KIND,
    SCALE,
    Arrays,
    FactualParser,
)
from capmeter_research.networks.scene_graph_parser.network import (
    GraphDecoderModule,
    SceneGraphModule,
    SentenceEncoderModule,
)
from capmeter_research.networks.scene_graph_parser.packing import CaptionPacker
from capmeter_research.networks.scene_graph_parser.training import SceneGraphLearner, SceneGraphRecipe
from capmeter_research.networks.scene_graph_parser.triples import IS, Triple, is_triple

_NUMBERS = {"2": ("two", "pair", "both"), "3": ("three",), "4": ("four",), "5": ("five",), "6": ("six",)}
_LARGEST = 127  # of a whole number that a weight changes by


@dataclass(frozen=True)
class DocumentGraph:
    """A document with the triples of its scene graph."""

    text: str
    triples: tuple[Triple, ...]


def read_documents(path: Path, excluded: Collection[str] = ()) -> list[DocumentGraph]:
    """Reads rows {"caption", "graph": [[subject, predicate, object] | [entity]]}, without excluded texts.

    Raises:
        InputError: the file cannot be read, or a line is not a document with a graph.
    """
    documents = []
    for line_number, row in read_json_rows(path, "documents with graphs"):
        try:
            triples = tuple(tuple(" ".join(part.lower().split()) for part in triple) for triple in row["graph"])
            if not all(map(is_triple, triples)) or not isinstance(row["caption"], str):
                raise ValueError('"graph" is a list of [subject, predicate, object] and [entity], "caption" a text')
            documents.append(DocumentGraph(row["caption"], triples))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}, line {line_number}: not a document with a scene graph: {error!r}") from error
    return [document for document in documents if document.text not in excluded]


@dataclass(frozen=True)
class DocumentRecipe(SceneGraphRecipe):
    """The settings of the training on documents."""

    epochs: int = 6
    parsed_epochs: int = 0
    lr: float = 1e-3
    lr_schedule: str = "constant"  # the moving average of the weights takes the place of a falling rate
    warmup: float = 0.06
    words: int = 400
    naming_epochs: int = 0
    runs: int = 2  # number of runs, which differ in their seeds; their weights are averaged


class _DocumentLearner(SceneGraphLearner):
    """Trains on the sentences of all documents; the last epoch is selected."""

    select = ""

    def evaluate(self) -> Mapping[str, float]:
        """Nothing: no document is held out."""
        return {}


def train_document_network(
    documents: Sequence[DocumentGraph],
    checkpoint: str | Path,
    folder: Path,
    *,
    data: Iterable[TrainingData] = (),
    recipe: DocumentRecipe = DocumentRecipe(),
    threads: int = 1,
    device: str = "cpu",
) -> None:
    """Trains a parser's network for documents, and writes its checkpoint.

    Args:
        documents: with their graphs.
        checkpoint: name or folder of the parser, whose network for captions it starts from and which stays as it is.
        folder: the output folder, with a folder for each run; an interrupted training there is resumed.
        data: the files of the documents.
        recipe: settings.
        threads: number of threads.
        device: a torch device.

    Raises:
        InputError: there are no documents.
    """
    if not documents:
        raise InputError("0 documents with graphs; expected one at least")
    torch.set_num_threads(threads)
    parser_checkpoint, parser = load_checkpoint(str(checkpoint), KIND), FactualParser(checkpoint)
    packer = CaptionPacker(parser.vocabulary, parser.pieces, parser.spelling, parser.lemmas, recipe.shape.steps)
    examples = packer.pack(sentence_examples(documents, parser))
    run_weights = []
    for run_number in range(recipe.runs):
        run_recipe = replace(recipe, seed=recipe.seed + run_number)
        set_seed(run_recipe.seed)
        learner = _DocumentLearner(
            _build_module(parser, parser_checkpoint.weights, run_recipe), examples, {}, run_recipe
        )
        description = f"training the network for documents, run {run_number + 1} of {recipe.runs}"
        run = Run(learner, run_recipe, folder / f"run-{run_number + 1}", description=description, device=device)
        run_weights.append(run.train().weights)
    weights = {
        weight_name: np.mean([weights_of_run[weight_name].astype(np.float32) for weights_of_run in run_weights], axis=0)
        for weight_name in run_weights[0]
    }
    Checkpoint(
        kind=DOCUMENT_KIND,
        parameters={"parser": parser_checkpoint.label},
        weights=pack_changes(parser_checkpoint.weights, weights),
        data=tuple(data),
        training={**asdict(recipe), "documents": len(documents)},
        selection="none: the mean of the weights after the last epoch of every run",
    ).save(folder)


def cross_validate(
    documents: Sequence[DocumentGraph],
    checkpoint: str | Path,
    folder: Path,
    folds: int,
    *,
    recipe: DocumentRecipe = DocumentRecipe(),
    threads: int = 1,
    device: str = "cpu",
) -> list[float]:
    """Trains networks without each fold of the documents, document k being in fold k mod `folds`.

    Args:
        documents: with their graphs.
        checkpoint: name or folder of the parser.
        folder: the output folder, with a folder for each fold.
        folds: number of folds, at least 2.
        recipe: settings.
        threads: number of threads.
        device: a torch device.

    Returns:
        For each fold SPICE F, in per cent, of the graphs of its documents by the network that did not learn from them.

    Raises:
        InputError: fewer documents than folds, or fewer than two folds.
    """
    if not 2 <= folds <= len(documents):
        raise InputError(f"{folds} folds of {len(documents)} documents; expected two at least, with a document each")
    evaluator = SceneGraphEvaluator(load_english_synonyms())
    fold_scores = []
    for fold in range(folds):
        training_documents = [document for k, document in enumerate(documents) if k % folds != fold]
        fold_folder = folder / f"fold-{fold + 1}"
        train_document_network(
            training_documents, checkpoint, fold_folder, recipe=recipe, threads=threads, device=device
        )
        graphs = FactualParser(checkpoint, fold_folder).parse([document.text for document in documents[fold::folds]])
        fold_scores.append(evaluator.scores(graphs, [document.triples for document in documents[fold::folds]]).spice)
        report_progress(f"fold {fold + 1} of {folds}: SPICE F {fold_scores[-1]:.1f}")
    return fold_scores


def _build_module(parser: FactualParser, weights: Mapping[str, Any], recipe: SceneGraphRecipe) -> SceneGraphModule:
    """The parser's network for captions in torch, with its weights."""
    width, hidden = weights["reader.pieces"].shape[1], len(weights["reader.layers.0.widen.bias"])
    encoder = SentenceEncoderModule(
        len(weights["reader.pieces"]),
        parser.encoder_shape,
        width,
        hidden,
        dropout=recipe.dropout,
        word_dropout=recipe.word_dropout,
    )
    decoder_count = len({weight_name.split(".")[1] for weight_name in weights if weight_name.startswith("writers.")})
    decoder_width = len(weights["writers.0.joined.bias"])
    decoders = [
        GraphDecoderModule(
            2 * width,
            decoder_width,
            len(parser.vocabulary),
            parser.network.shape,
            dropout=recipe.dropout,
            token_dropout=recipe.token_dropout,
        )
        for _ in range(decoder_count)
    ]
    module = SceneGraphModule(encoder, decoders)
    module.load_state_dict(
        {weight_name: torch.from_numpy(np.asarray(array, np.float32)) for weight_name, array in weights.items()}
    )
    return module


def sentence_examples(documents: Sequence[DocumentGraph], parser: FactualParser) -> list[SceneGraphExample]:
    """The sentences of documents as the parser reads them, each with the triples that it states."""
    base_form = SceneGraphEvaluator(load_english_synonyms()).base_noun
    examples = []
    for document, sentences in zip(documents, parser.read_documents([each.text for each in documents]), strict=True):
        sentence_lemmas = [[base_form(word) for word in words] for words in sentences]
        triples: list[list[Triple]] = [[] for _ in sentences]
        for triple in document.triples:
            triple_lemmas = [[base_form(word) for word in part.split()] for part in triple]
            scores = [_mention_score(triple_lemmas, words) for words in sentence_lemmas]
            best_sentence = max(range(len(scores)), key=lambda index: (scores[index], -index), default=None)
            if best_sentence is not None and scores[best_sentence] >= 2:
                triples[best_sentence].append(triple)
        examples += [
            name_as_in_caption(SceneGraphExample(" ".join(words), tuple(sentence_triples)), parser.spelling, base_form)
            for words, sentence_triples in zip(sentences, triples, strict=True)
        ]
    return examples


def _mention_score(parts: Sequence[list[str]], words: Sequence[str]) -> float:
    """2 if the sentence mentions both ends of a triple (or its entity), and more the nearer they are.

    Args:
        parts: of the triple, each as lemmas.
        words: of the sentence, as lemmas.
    """
    ends = (parts[0], parts[-1])
    end_positions = [
        [k for k, word in enumerate(words) if word in (end[-1], *_NUMBERS.get(end[-1], ()))] for end in ends
    ]
    if not all(end_positions):
        return float(sum(map(bool, end_positions))) / 2
    if len(parts) == 1:
        return 2.0
    nearness = 1 / (1 + min(abs(a - b) for a in end_positions[0] for b in end_positions[1]))
    if parts[1] == [IS]:
        return 2 + nearness / 2
    predicate_stems = {word[:4] for word in parts[1] if len(word) > 2}
    return 2 + nearness / 3 + any(word[:4] in predicate_stems for word in words) / 2


def pack_changes(start: Arrays, trained: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The changes from `start` to `trained`, without the weights that did not change.

    Args:
        start: weights before training.
        trained: the same names and shapes.
    """
    changes: dict[str, npt.NDArray[Any]] = {}
    for weight_name, trained_weight in trained.items():
        start_weight = start[weight_name]
        if np.array_equal(start_weight, trained_weight):
            continue
        if trained_weight.ndim != 2:
            changes[weight_name] = trained_weight.astype(np.float16)
            continue
        weight_change = trained_weight.astype(np.float32) - start_weight.astype(np.float32)
        scale = (np.abs(weight_change).max(axis=1) / _LARGEST).astype(np.float16)
        steps = np.divide(weight_change, scale[:, None], out=np.zeros_like(weight_change), where=scale[:, None] > 0)
        changes[weight_name] = np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8)
        changes[weight_name + SCALE] = scale
    return changes
