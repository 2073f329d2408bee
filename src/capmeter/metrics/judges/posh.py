"""PoSh (Ananthram et al. 2026): a language model looks for every element of a text's scene graph in the other text.

    precision = mean grade of the candidate's elements in the references / 5        (mistakes lower it)
    recall    = mean grade of the references' elements in the candidate / 5         (omissions lower it)
    score     = 2 precision recall / (precision + recall)                           of a caption, then the mean

An element is an object, an attribute or a relation; its grade, 1 (absent) to 5 (explicit), is the expectation over the
log-probabilities of the answer. Attributes and relations are asked for objects whose grade is at least 2; those of
others get 1. A text without elements has a share of 1. Range .2 to 1; an empty caption scores 0. Scene graphs are
capmeter's own (`graphs`), not those of spaCy and a coreference model, and the questions are our own words: scores are
not the published ones.

>>> str(PoSh(model="Qwen3-14B"))
'posh(model=Qwen3-14B)'

Ananthram et al.: PoSh: Using Scene Graphs to Guide LLMs-as-a-Judge for Detailed Image Descriptions. ICLR 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from capmeter.captions.caption_set import CaptionSet
from capmeter.evaluation.base import RunContext
from capmeter.metrics.judges.answers import Answer, Failure, Question
from capmeter.metrics.judges.judge import (
    NO_ANSWER,
    PLAIN,
    UNANSWERED,
    Conversation,
    Judge,
    JudgedCaption,
    Verdict,
)
from capmeter.metrics.judges.prompts import Template, template
from capmeter.metrics.judges.reading import expected_number, missing_reason
from capmeter.text.scene_graphs.extraction import (
    GraphsName,
    describe_source,
    find_source,
    find_synset_lookup,
    resolve_source,
)
from capmeter.text.scene_graphs.graph import Concept, SceneGraph, build_scene_graph

LOWEST, HIGHEST, PRESENT = 1, 5, 2


@dataclass
class Direction:
    """The elements of one text, looked for in another.

    Args:
        graph: of the first text.
        text: the other one.
        grades: by the number of the object, or (kind, number) of an attribute or relation; None: unreadable.
    """

    graph: SceneGraph
    text: str
    grades: dict[Any, float | None] = field(default_factory=dict)

    def objects(self) -> list[str]:
        """The names of the objects, each with its first attribute."""
        owned = self.graph.owned()
        return [
            " ".join([*(first_word(self.graph.attributes[k][1]) for k in owned.get(number, ())[:1]), first_word(each)])
            for number, each in enumerate(self.graph.objects)
        ]

    def is_present(self, number: int) -> bool:
        """Whether the other text has this object."""
        return (self.grades.get(number) or 0.0) >= PRESENT

    def details(self) -> list[tuple[tuple[str, int], str]]:
        """The attributes and relations to ask for, with the statement of each; those of absent objects are graded."""
        object_names, asked_elements = [first_word(each) for each in self.graph.objects], []
        elements: list[tuple[tuple[str, int], tuple[int, ...]]]
        elements = [(("attribute", k), (owner,)) for k, (owner, _) in enumerate(self.graph.attributes)]
        elements += [(("relation", k), (a, b)) for k, (a, _, b) in enumerate(self.graph.relations)]
        for element_key, element_ends in elements:
            if all(self.is_present(end) for end in element_ends):
                asked_elements.append((element_key, self._statement(element_key, object_names)))
            elif all(self.grades.get(end) is not None for end in element_ends):
                self.grades[element_key] = float(LOWEST)
        return asked_elements

    def _statement(self, element_key: tuple[str, int], object_names: Sequence[str]) -> str:
        if element_key[0] == "attribute":
            owner, attribute = self.graph.attributes[element_key[1]]
            return f'the {object_names[owner]} is described as "{first_word(attribute)}"'
        subject, relation, target = self.graph.relations[element_key[1]]
        return f'the relation of the {object_names[subject]} to the {object_names[target]} is "{first_word(relation)}"'

    def share(self) -> float:
        """The mean of the grades, 0 to 1."""
        known_grades = [grade for grade in self.grades.values() if grade is not None]
        return sum(known_grades) / len(known_grades) / HIGHEST if known_grades else 1.0


@dataclass(frozen=True, kw_only=True)
class PoSh(Judge):
    """Elements of scene graphs, looked for in the other text."""

    NAME: ClassVar[str] = "posh"
    SUMMARY: ClassVar[str] = "scene-graph elements of long captions, looked for in the other text"
    ALTERNATIVES: ClassVar[bool] = True
    ROUNDS: ClassVar[float] = 2.0
    FORMULA: ClassVar[tuple[str, ...]] = (
        r"P = \frac{1}{5 |G_c|} \sum_{g \in G_c} \text{grade}(g, R), \quad R = \frac{1}{5 |G_R|} \sum_{g \in G_R} "
        r"\text{grade}(g, c)",
        r"F_1 = \frac{2 P R}{P + R}",
    )

    graphs: GraphsName = "factual"

    @property
    def prompts(self) -> tuple[Template, ...]:
        """Of an element."""
        return (template("posh"),)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The caption's score, precision and recall."""
        return "score", "precision", "recall"

    def signature_facts(self, context: RunContext) -> dict[str, str]:
        """Also the scene-graph parser."""
        return super().signature_facts(context) | describe_source(self._source)

    def captions_of(self, part: CaptionSet, context: RunContext) -> list[JudgedCaption]:
        """The captions with the graphs of both sides."""
        captions = super().captions_of(part, context)
        texts = list(dict.fromkeys(text for each in captions for text in (each.candidate, *each.references)))
        scenes = find_source(self._source).extract(texts, context.settings)
        text_tuples = {text: scene.tuples or () for text, scene in zip(texts, scenes, strict=True)}
        synsets = find_synset_lookup(False)

        def graph(texts: Sequence[str]) -> SceneGraph:
            return build_scene_graph((each for text in texts for each in text_tuples[text]), synsets)

        return [replace(each, graphs=(graph([each.candidate]), graph(each.references))) for each in captions]

    def converse(self, caption: JudgedCaption) -> Conversation:
        """Asks for objects, then for the attributes and relations of those that are there."""
        candidate_graph, reference_graph = caption.graphs
        directions = (
            Direction(candidate_graph, "\n".join(caption.references)),
            Direction(reference_graph, caption.candidate),
        )
        notes: dict[str, None] = {}
        object_elements = [
            (direction, object_index, f"{object_name} is mentioned")
            for direction in directions
            for object_index, object_name in enumerate(direction.objects())
        ]
        reasons = yield from self._grade(caption, object_elements, notes)
        detail_elements = [
            (direction, key, statement) for direction in directions for key, statement in direction.details()
        ]
        reasons += yield from self._grade(caption, detail_elements, notes)
        if any(direction.grades and not any(direction.grades.values()) for direction in directions):
            return str(reasons[0])
        precision, recall = (direction.share() for direction in directions)
        if reasons:
            notes[UNANSWERED] = None
        return Verdict((2 * precision * recall / (precision + recall), precision, recall), tuple(notes))

    def _grade(
        self, caption: JudgedCaption, elements: Sequence[tuple[Direction, Any, str]], notes: dict[str, None]
    ) -> Any:
        """Asks for elements and notes their grades; returns why some have none."""
        reasons: list[str] = []
        if not elements:
            return reasons
        prompt = self.prompts[0]
        questions: list[Question] = [
            self.question(prompt, caption, statement, candidate=direction.text, items=statement)
            for direction, _, statement in elements
        ]
        answers: list[Answer | Failure] = yield questions
        for (direction, element_key, _), answer in zip(elements, answers, strict=True):
            grade = NO_ANSWER if isinstance(answer, Failure) else expected_number(answer, LOWEST, HIGHEST)
            direction.grades[element_key] = None if isinstance(grade, str) else grade[0]
            if isinstance(grade, str):
                reasons.append(grade if isinstance(answer, Failure) else missing_reason(answer))
            elif not grade[1]:
                notes[PLAIN] = None
        return reasons

    @property
    def _source(self) -> str:
        return resolve_source(self.graphs, "caption")


def first_word(concept: Concept) -> str:
    """The first name of a concept."""
    return concept.words[0]
