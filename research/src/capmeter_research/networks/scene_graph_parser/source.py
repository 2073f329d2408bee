"""Scene graphs of the scene-graph parser for metrics (`graphs=factual`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from capmeter.core.settings import Settings
from capmeter.text.scene_graphs.extraction import SceneGraphSource, is_latin
from capmeter.text.scene_graphs.rules import SceneTuple
from capmeter_research.networks.scene_graph_parser.factual_parser import FactualParser, bundled_scene_graph_parser
from capmeter_research.networks.scene_graph_parser.triples import IS, Triple

_NUMBERS = {str(k): word for k, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}  # noqa: SIM905


class LearnedSource(SceneGraphSource):
    """The scene-graph parser that was trained on human-written graphs.

    Args:
        parser: the parser; None for the bundled one.
    """

    revision = 2

    def __init__(self, parser: FactualParser | None = None) -> None:
        self.parser = bundled_scene_graph_parser() if parser is None else parser
        super().__init__(self.parser.version, self.parser.batch)

    def compute(self, captions: Sequence[str], settings: Settings) -> list[list[Any] | None]:
        """Parses captions into triples and converts them."""
        return [
            [tuples_from_triples(triples), False, is_latin(caption) and self.parser.looks_english(caption)]
            for caption, triples in zip(captions, self.parser.parse(captions), strict=True)
        ]


def tuples_from_triples(triples: Iterable[Triple]) -> list[SceneTuple]:
    """Converts triples to (object), (object, attribute), (subject, object, relation); numbers up to ten become words.

    >>> tuples_from_triples([("dogs", "is", "2"), ("dogs", "run on", "grass"), ("sky",)])
    [('dogs', 'two'), ('dogs', 'grass', 'run on'), ('sky',)]
    """
    scene_tuples: list[SceneTuple] = []
    for triple in triples:
        if len(triple) == 1:
            scene_tuples.append(triple)
        elif triple[1] == IS:
            scene_tuples.append((triple[0], _NUMBERS.get(triple[2], triple[2])))
        else:
            scene_tuples.append((triple[0], triple[2], triple[1]))
    return scene_tuples
