"""Explanations for a terminal: each side's words, coloured by how they were matched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from capmeter.core.terminal import escape_controls
from capmeter.evaluation.contributions import Contributions
from capmeter.evaluation.evidence import Evidence, Mark, RegionEvidence
from capmeter.evaluation.scene_evidence import SceneEvidence
from capmeter.report.explain import Explanation, format_tuple, sentence_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_COLOURS = ("bright_blue", "green", "yellow", "magenta", "cyan", "bright_red", "bright_green", "bright_magenta")
_STRUCK = ("cut", "removed", "deleted")
_WRONG = ("hallucinated", "contradicted", "unsupported")
_MAX_MATCHES, _MAX_REGIONS = 12, 5
_LABEL_WIDTH = 24


def render_explanations(explanations: Sequence[Explanation]) -> RenderableType:
    """The explanations as one Rich renderable, with a legend of colours and marks."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.text import Text

    evidence = [each for explanation in explanations for each in _with_members(explanation.evidence.values())]
    match_kinds = sorted({link.kind for each in evidence for link in each.links})
    colours = {kind: _COLOURS[k % len(_COLOURS)] for k, kind in enumerate(match_kinds)}
    parts: list[RenderableType] = []
    for explanation in explanations:
        caption = explanation.caption
        parts.append(Rule(Text(escape_controls(caption.id), style="bold"), align="left", style="dim"))
        parts.append(Text(escape_controls(caption.candidate) or "(empty)", style="bold"))
        scores = (f"{metric_name} {score:.4f}" for metric_name, score in explanation.scores.items())
        parts.append(Text("   ".join(scores), style="dim"))
        for metric_name, each in explanation.evidence.items():
            parts.append(_evidence_table(metric_name, each, colours, explanation.scores[metric_name]))
            members = (_evidence_table(member, inner, colours) for member, inner in each.members.items())
            parts.extend(Padding(member, (0, 0, 0, 4)) for member in members)
        parts.append(Text(""))
    mark_kinds = sorted({mark.kind for each in evidence for mark in each.marks})
    legend = Text()
    for label, styles in (("matched", colours), ("marked", {kind: _mark_style(kind) for kind in mark_kinds})):
        if styles:
            legend.append(f"{label}: ", style="dim")
        for kind, style in styles.items():
            legend.append(kind, style=style).append("  ")
    return Group(*parts, legend)


def _with_members(evidence: Iterable[Evidence]) -> Iterator[Evidence]:
    """Each metric's evidence, followed by that of its members."""
    for metric_evidence in evidence:
        yield metric_evidence
        yield from _with_members(metric_evidence.members.values())


def _evidence_table(
    name: str, evidence: Evidence, colours: Mapping[str, str], score: float | None = None
) -> RenderableType:
    """One metric's evidence; a composite metric shows the words with its members."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    score_text = "" if score is None else f"{score:.4f}"
    if len(name) > _LABEL_WIDTH:  # in a line of its own, so that the words have the width
        heading = Text("\n").append(name, style="bold").append(f"  {score_text}")
    else:
        heading = Text("")
        table.add_row(Text(name, style="bold"), Text(score_text))
    for label, line in _evidence_lines(evidence, colours):
        table.add_row(Text(label, style="dim"), line)
    return Group(heading, table)


def _evidence_lines(evidence: Evidence, colours: Mapping[str, str]) -> Iterator[tuple[str, Text]]:
    """The lines of the table: a label and what it says."""
    from rich.text import Text

    if evidence.sentences:
        yield from _sentence_lines(evidence, colours)
    elif not evidence.members:
        yield "caption", _words_line(evidence, None, colours)
        for k in range(len(evidence.references)):
            label = "reference" if len(evidence.references) == 1 else f"reference {k + 1}"
            yield label, _words_line(evidence, k, colours)
        compares_words = evidence.scene is None and evidence.regions is None and not _has_answers(evidence)
        if compares_words and (evidence.links or not (evidence.marks or evidence.word_scores)):
            yield "matched", _matches_line(evidence, colours)
    if evidence.scene is not None and not evidence.members:
        yield from _tuple_lines(evidence.scene)
    if evidence.word_scores and not evidence.sentences:
        pairs = zip(evidence.candidate, evidence.word_scores, strict=True)
        yield "words", Text(escape_controls("  ".join(f"{word} {score:.2f}" for word, score in pairs)))
    if _has_answers(evidence):
        lines = (escape_controls(f"{question}: {answer}") for question, answer in evidence.facts.items())
        yield "answers", Text("\n".join(lines))
    elif evidence.facts:
        facts = "   ".join(f"{fact_name} {_format_number(value)}" for fact_name, value in evidence.facts.items())
        yield "facts", Text(escape_controls(facts))
    if evidence.contributions is not None:
        yield from _contribution_lines(evidence.contributions)
    if evidence.regions is not None:
        yield "regions", _regions_line(evidence.regions)


def _has_answers(evidence: Evidence) -> bool:
    """Whether the evidence is what a judge answered."""
    is_of_words = evidence.links or evidence.marks or evidence.word_scores or evidence.members
    return bool(evidence.facts) and not is_of_words and all(isinstance(each, str) for each in evidence.facts.values())


def _contribution_lines(contributions: Contributions) -> Iterator[tuple[str, Text]]:
    """The logit as a sum: the base's, then the contributions, the largest first."""
    from rich.text import Text

    base = escape_controls(contributions.base)
    yield "logit", Text(f"{contributions.logit:.3f} = {contributions.start:.3f} ({base}) + contributions")
    for input_name, input_value, base_value, contribution in sorted(
        contributions.inputs, key=lambda each: -abs(each[3])
    ):
        line = Text(
            f"{contribution:+8.3f}", style="green" if contribution > 0 else "red" if contribution < 0 else "dim"
        )
        line.append(f"  {escape_controls(input_name)} {_format_number(input_value)}", style="")
        yield "", line.append(f" (base {_format_number(base_value)})", "dim")


def _regions_line(regions: RegionEvidence) -> Text:
    from rich.text import Text

    lines = (
        f"{label or 'region'} {_format_number(weight)} at {', '.join(f'{number:.2f}' for number in box)}"
        for label, box, weight in regions.heaviest(_MAX_REGIONS)
    )
    return Text("\n".join(map(escape_controls, lines)))


def _sentence_lines(evidence: Evidence, colours: Mapping[str, str]) -> Iterator[tuple[str, Text]]:
    """A document: each sentence of the caption under its verdict, what contradicts it, and the missing sentences."""
    from rich.text import Text

    for sentence in evidence.sentences:
        if sentence.verdict == "covered":
            continue
        line = _words_line(evidence, sentence.reference_index, colours, (sentence.start, sentence.end))
        if sentence.verdict in ("contradicted", "unsupported"):
            nearest_sentences = (sentence_text(evidence, *place) for place in sentence.judged_by)
            line.append(escape_controls(f"[nearest: {' '.join(nearest_sentences)}]"), style="dim")
        yield f"{sentence.verdict} {sentence.score:.2f}", line
    covered_count = sum(sentence.verdict == "covered" for sentence in evidence.sentences)
    yield "covered", Text(f"{covered_count} sentences of the references")


def _words_line(
    evidence: Evidence, reference: int | None, colours: Mapping[str, str], place: tuple[int, int] | None = None
) -> Text:
    """The words of the candidate (None) or of a reference, each in the colour of its longest match."""
    from rich.text import Text

    tokens = evidence.candidate if reference is None else evidence.references[reference]
    link_spans = [
        (link.candidate if reference is None else link.reference, link.kind)
        for link in sorted(evidence.links, key=lambda link: link.candidate[1] - link.candidate[0])
        if reference is None or link.reference_index == reference
    ]
    token_styles = {i: colours[kind] for (start, end), kind in link_spans for i in range(start, end)}
    for mark in evidence.marks:
        if _is_on_side(mark, reference):
            for i in range(mark.start, mark.end):
                token_styles[i] = f"{token_styles.get(i, '')} {_mark_style(mark.kind)}".strip()
    line = Text()
    for i in range(*(place or (0, len(tokens)))):
        line.append(escape_controls(tokens[i]), style=token_styles.get(i, "")).append(" ")
    return line if tokens else Text("(no words)", style="dim")


def _is_on_side(mark: Mark, reference: int | None) -> bool:
    return mark.reference_index == reference if mark.side == "reference" else reference is None


def _mark_style(kind: str) -> str:
    if any(word in kind for word in _STRUCK):
        return "strike dim"
    if kind in _WRONG:
        return "bold red"
    return {"unmatched": "dim", "raises": "green", "lowers": "red"}.get(kind, "underline")


def _matches_line(evidence: Evidence, colours: Mapping[str, str]) -> Text:
    """The heaviest distinct matches, each with its weight."""
    from rich.text import Text

    kinds: dict[tuple[str, str, float], str] = {}
    for link in sorted(evidence.links, key=lambda link: -link.weight):
        candidate = " ".join(evidence.candidate[slice(*link.candidate)])
        reference = " ".join(evidence.references[link.reference_index][slice(*link.reference)])
        kinds.setdefault((candidate, reference, link.weight), link.kind)
    line = Text("" if kinds else "nothing")
    for (candidate, reference, weight), kind in list(kinds.items())[:_MAX_MATCHES]:
        words = candidate if candidate == reference else f"{candidate} ~ {reference}"
        line.append(escape_controls(words), style=colours[kind]).append(f" {_format_number(weight)}   ", style="dim")
    if len(kinds) > _MAX_MATCHES:
        line.append(f"and {len(kinds) - _MAX_MATCHES} more", style="dim")
    return line


def _tuple_lines(scene: SceneEvidence) -> Iterator[tuple[str, Text]]:
    """The tuples of each kind: the common ones, then those on one side only, each with its nearest on the other."""
    from rich.text import Text

    for kind in ("object", "attribute", "relation"):
        of_kind = [each for each in scene.tuples if each.kind == kind]
        candidate = [each for each in of_kind if each.side == "candidate"]
        common = ", ".join(format_tuple(each.words) for each in candidate if each.matched)
        yield f"{kind}s in common", Text(escape_controls(common) or "nothing")
        missing = [each for each in of_kind if each.side == "reference" and not each.matched]
        unmatched = [each for each in candidate if not each.matched]
        for label, tuples in (("in caption only", unmatched), ("missing", missing)):
            line = Text()
            for number, each in enumerate(tuples):
                line.append(", " if number else "").append(escape_controls(format_tuple(each.words)))
                if each.nearest is not None:
                    line.append(f" (nearest: {escape_controls(format_tuple(each.nearest))})", style="dim")
            if tuples:
                yield label, line


def _format_number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
