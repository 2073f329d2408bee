"""Trains the scene-graph parser's network for documents on graphs that annotators wrote of whole documents (DiscoSG).

A document's triples are divided among its sentences, as the parser reads them (pronouns replaced by what they refer
to): each goes to the sentence that mentions both of its ends nearest to each other, with words of its predicate.
Triples whose ends are in no sentence are left out (11 % of DiscoSG's), and sentences without any are examples with an
empty graph: they are about the picture, not about what it shows. The network starts from that for captions, and all
layers but the word embeddings are trained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capmeter.core.checkpoints import Checkpoint, TrainingData, load_checkpoint
from capmeter.core.errors import InputError
from capmeter.text.meteor.resources import load_english_synonyms
from capmeter.text.scene_graphs.learned_parser import DOCUMENT_KIND, KIND, FactualParser
from capmeter.text.scene_graphs.triples import IS, Triple, is_triple
from capmeter.text.scene_graphs.weight_changes import pack_changes
from capmeter_recipes.common.loop import Outcome, Run, set_seed
from capmeter_recipes.common.parsed_captions import read_gzipped_rows
from capmeter_recipes.scene_graph_parser.evaluation import SceneGraphEvaluator
from capmeter_recipes.scene_graph_parser.examples import SceneGraphExample, name_as_in_caption
from capmeter_recipes.scene_graph_parser.network import GraphDecoderModule, SceneGraphModule, SentenceEncoderModule
from capmeter_recipes.scene_graph_parser.packing import CaptionPacker
from capmeter_recipes.scene_graph_parser.training import SceneGraphLearner, SceneGraphRecipe

DOCUMENT_RECIPE = SceneGraphRecipe(epochs=4, parsed_epochs=0, lr=1e-3, warmup=0.06, words=400, naming_epochs=0)
HELD_OUT_DOCUMENTS = 30  # every thirtieth document selects the epoch
_NUMBERS = {"2": ("two", "pair", "both"), "3": ("three",), "4": ("four",), "5": ("five",), "6": ("six",)}


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
    for number, row in read_gzipped_rows(path, "documents with graphs"):
        try:
            triples = tuple(tuple(" ".join(part.lower().split()) for part in triple) for triple in row["graph"])
            if not all(map(is_triple, triples)) or not isinstance(row["caption"], str):
                raise ValueError('"graph" is a list of [subject, predicate, object] and [entity], "caption" a text')
            documents.append(DocumentGraph(row["caption"], triples))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}, line {number}: not a document with a scene graph: {error!r}") from error
    return [document for document in documents if document.text not in excluded]


def train_document_network(
    documents: Sequence[DocumentGraph],
    checkpoint: str | Path,
    folder: Path,
    *,
    data: Iterable[TrainingData] = (),
    recipe: SceneGraphRecipe = DOCUMENT_RECIPE,
    threads: int = 1,
    device: str = "cpu",
) -> Outcome:
    """Trains a parser's network for documents, and writes its checkpoint.

    Args:
        documents: with their graphs; every thirtieth selects the epoch.
        checkpoint: name or folder of the parser, whose network for captions it starts from and which stays as it is.
        folder: the output folder; an interrupted run there is resumed.
        data: the files of the documents.
        recipe: settings.
        threads: number of threads.
        device: a torch device.

    Raises:
        InputError: too few documents.
    """
    if len(documents) < 2:
        raise InputError(f"{len(documents)} documents with graphs; expected two at least, one of which is held out")
    torch.set_num_threads(threads)
    set_seed(recipe.seed)
    loaded, parser = load_checkpoint(str(checkpoint), KIND), FactualParser(checkpoint)
    module = build_module(parser, loaded.weights, recipe)
    packer = CaptionPacker(parser.vocabulary, parser.pieces, parser.spelling, parser.lemmas, recipe.shape.steps)
    held_out = documents[::HELD_OUT_DOCUMENTS]
    train = [document for k, document in enumerate(documents) if k % HELD_OUT_DOCUMENTS]
    examples, selection = (packer.pack(sentence_examples(side, parser)) for side in (train, held_out))
    learner = SceneGraphLearner(module, examples, selection, recipe)
    outcome = Run(learner, recipe, folder, description="training the network for documents", device=device).train()
    Checkpoint(
        kind=DOCUMENT_KIND,
        parameters={"parser": loaded.label},
        weights=pack_changes(loaded.weights, outcome.weights),
        data=tuple(data),
        training={**asdict(recipe), "documents": len(train)},
        selection="the epoch with the most exact graphs of held-out sentences",
        scores=outcome.scores,
    ).save(folder)
    return outcome


def build_module(parser: FactualParser, weights: Mapping[str, Any], recipe: SceneGraphRecipe) -> SceneGraphModule:
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
    count = len({name.split(".")[1] for name in weights if name.startswith("writers.")})
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
        for _ in range(count)
    ]
    module = SceneGraphModule(encoder, decoders)
    module.load_state_dict({name: torch.from_numpy(np.asarray(each, np.float32)) for name, each in weights.items()})
    return module


def sentence_examples(documents: Sequence[DocumentGraph], parser: FactualParser) -> list[SceneGraphExample]:
    """The sentences of documents as the parser reads them, each with the triples that it states."""
    base_form = SceneGraphEvaluator(load_english_synonyms()).base_noun
    examples = []
    for document, sentences in zip(documents, parser.read_documents([each.text for each in documents]), strict=True):
        lemmas = [[base_form(word) for word in words] for words in sentences]
        triples: list[list[Triple]] = [[] for _ in sentences]
        for triple in document.triples:
            parts = [[base_form(word) for word in part.split()] for part in triple]
            scores = [_mention_score(parts, words) for words in lemmas]
            best = max(range(len(scores)), key=lambda k: (scores[k], -k), default=None)
            if best is not None and scores[best] >= 2:
                triples[best].append(triple)
        examples += [
            name_as_in_caption(SceneGraphExample(" ".join(words), tuple(each)), parser.spelling, base_form)
            for words, each in zip(sentences, triples, strict=True)
        ]
    return examples


def _mention_score(parts: Sequence[list[str]], words: Sequence[str]) -> float:
    """2 if the sentence mentions both ends of a triple (or its entity), and more the nearer they are.

    Args:
        parts: of the triple, each as lemmas.
        words: of the sentence, as lemmas.
    """
    ends = (parts[0], parts[-1])
    places = [[k for k, word in enumerate(words) if word in (end[-1], *_NUMBERS.get(end[-1], ()))] for end in ends]
    if not all(places):
        return float(sum(map(bool, places))) / 2
    if len(parts) == 1:
        return 2.0
    nearness = 1 / (1 + min(abs(a - b) for a in places[0] for b in places[1]))
    if parts[1] == [IS]:
        return 2 + nearness / 2
    stems = {word[:4] for word in parts[1] if len(word) > 2}
    return 2 + nearness / 3 + any(word[:4] in stems for word in words) / 2
