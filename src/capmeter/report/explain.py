"""Why captions got their scores: the evidence of one caption or of the worst.

Nothing here is specific to a metric: all `Evidence` is treated the same way. `render_explanations` shows it in a
terminal, from `Evidence.to_dict()`, which `explain --format json` prints.

>>> from capmeter.captions.load import load
>>> captions = load(["a dog runs"], [["the dog is running", "a dog runs fast"]])
>>> (explanation,) = explain(captions, "rouge-l")
>>> explanation.evidence["rouge-l"].candidate, round(explanation.scores["rouge-l"], 3)
(('a', 'dog', 'runs'), 0.836)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.core.messages import describe, escape_controls
from capmeter.core.settings import Settings
from capmeter.evaluation.base import Metric
from capmeter.evaluation.evidence import Evidence
from capmeter.evaluation.registry import parse, parse_list
from capmeter.evaluation.results import Results, Scores
from capmeter.evaluation.runner import Evaluation
from capmeter.report.tables import default_digits

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


@dataclass(frozen=True)
class Explanation:
    """One caption with its score and evidence under each metric."""

    caption: Caption
    scores: dict[str, float]
    evidence: dict[str, Evidence]


def explain(
    captions: CaptionSet,
    metrics: str | Iterable[str | Metric],
    *,
    ids: Sequence[str] = (),
    worst: int | None = None,
    by: str | Metric | None = None,
    best: bool = False,
    stored: Results | None = None,
    settings: Settings | None = None,
) -> list[Explanation]:
    """The evidence for these captions, or for the `worst` (or best) by the metric `by`.

    All captions are scored, since document frequencies, for example, come from all of them. Without `ids` and `worst`
    every caption is explained.

    Args:
        captions: the captions with their references.
        metrics: names or values.
        ids: the captions to explain.
        worst: the number of captions to explain, those with the worst scores: the lowest, or the highest where lower is
            better.
        by: the metric that orders captions for `worst` (default: the first).
        best: explain those with the best scores instead.
        stored: results of these captions; metrics that they have are not scored again.
        settings: device, precision, threads and cache.

    Raises:
        InputError: an unknown id, a metric without explanations, or results of other captions.
    """
    parsed_metrics = parse_list(metrics)
    unexplained = [str(metric) for metric in parsed_metrics if not metric.can_explain]
    if unexplained:
        raise InputError(f"{', '.join(unexplained)} cannot explain a score; leave it out, or choose a metric that can")
    if worst is not None and not (isinstance(worst, int | np.integer) and worst >= 1):
        raise InputError(f"worst: expected a whole number of 1 or more, but got {describe(worst)}")
    if stored and (not isinstance(stored, Results) or list(stored.ids.names) != list(captions.ids)):
        raise InputError("stored: the results are not of these captions; omit them, or explain the captions they hold")
    ordering_metric = parsed_metrics[0] if by is None else parse(by)
    scored_metrics = (*parsed_metrics, *(() if ordering_metric in parsed_metrics else (ordering_metric,)))
    evaluation = Evaluation(scored_metrics, settings or Settings()).with_collected_states(captions)
    stored_scores = {str(metric): stored[metric] for metric in scored_metrics if stored and str(metric) in set(stored)}
    scored = [metric for metric in scored_metrics if str(metric) not in stored_scores]
    fresh = replace(evaluation, metrics=tuple(scored)).with_collected_states(captions).run(captions) if scored else {}
    results = {str(metric): stored_scores.get(str(metric)) or fresh[str(metric)] for metric in scored_metrics}
    if ids:
        rows = [captions.row(caption_id) for caption_id in (ids if isinstance(ids, Iterable) else [ids])]
    elif worst is not None:
        scores = results[str(ordering_metric)].items.array
        is_ascending = best == ordering_metric.lower_is_better
        rows = np.argsort(scores if is_ascending else -scores, kind="stable")[:worst].tolist()
    else:
        rows = list(range(len(captions)))
    evidence = {str(m): explain_rows(captions, m, rows, evaluation, stored_scores.get(str(m))) for m in parsed_metrics}
    return [
        Explanation(
            captions[captions.ids[row]],
            {metric_name: float(scores.items.array[row]) for metric_name, scores in results.items()},
            {metric_name: metric_evidence[k] for metric_name, metric_evidence in evidence.items()},
        )
        for k, row in enumerate(rows)
    ]


def describe_order(metrics: str | Iterable[str | Metric], by: str | Metric | None = None, best: bool = False) -> str:
    """What `explain` orders captions by, for these arguments.

    >>> describe_order("cider-d,chair", by="chair")
    'chair, highest first (lower is better)'

    Args:
        metrics: names or values.
        by: the metric that orders; None: the first.
        best: whether the best come first.
    """
    ordering = parse_list(metrics)[0] if by is None else parse(by)
    first = "lowest" if best == ordering.lower_is_better else "highest"
    return f"{ordering}, {first} first ({'lower' if ordering.lower_is_better else 'higher'} is better)"


def explain_rows(
    captions: CaptionSet, metric: Metric, rows: Sequence[int], evaluation: Evaluation, stored: Scores | None = None
) -> list[Evidence]:
    """A metric's evidence for the captions in these rows; `evaluation` may have collected states of these captions.

    Where the stored scores of a judge hold its answers about these captions, it is not asked again.

    Args:
        captions: the whole set.
        metric: which can explain.
        rows: of the captions to explain.
        evaluation: with states that were collected.
        stored: scores of these captions.
    """
    ids = [captions.ids[row] for row in rows]
    if stored is not None and stored.answers.keys() >= set(ids):
        from capmeter.metrics.judges.judge import Judge

        assert isinstance(metric, Judge)  # no other metric keeps answers
        return metric.explain_answers(captions.select(rows), [stored.answers[caption_id] for caption_id in ids])
    evaluation = replace(evaluation, metrics=(metric,)).with_collected_states(captions)
    evidence: list[Evidence] = []
    for part in captions.select(rows).chunks(metric.PART_SIZE):
        evidence.extend(evaluation.explain(part)[metric])
    return evidence


def to_dicts(explanations: Iterable[Explanation], order: str = "") -> list[dict[str, Any]]:
    """The explanations as JSON values, one object per caption; `order`: what they are ordered by."""
    return [
        {
            "id": explanation.caption.id,
            "image_id": explanation.caption.image_id,
            "candidate": explanation.caption.candidate,
            "references": list(explanation.caption.references),
            "scores": explanation.scores,
            "evidence": {name: one.to_dict() for name, one in explanation.evidence.items()},
            **({"order": order} if order else {}),
        }
        for explanation in explanations
    ]


def format_tuple(words: Sequence[str]) -> str:
    """A readable tuple of a scene graph: "dog", "brown dog", "dog – run on – grass"."""
    return " – ".join(words) if len(words) == 3 else " ".join(reversed(words))


_COLOURS = ("bright_blue", "green", "yellow", "magenta", "cyan", "bright_red", "bright_green", "bright_magenta")
_STRUCK = ("cut", "removed", "deleted")
_WRONG = ("hallucinated", "contradicted", "unsupported")
_MAX_MATCHES, _MAX_REGIONS = 12, 5
_LABEL_WIDTH = 24
EvidenceData = Mapping[str, Any]


def render_explanations(explanations: Sequence[Explanation], scale: float = 1) -> RenderableType:
    """The explanations as one Rich renderable, with a legend of colours and marks.

    Args:
        explanations: to show.
        scale: by which scores are multiplied.
    """
    from rich.console import Group
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.text import Text

    evidence = [{name: each.to_dict() for name, each in explanation.evidence.items()} for explanation in explanations]
    every = [each for by_metric in evidence for each in _with_members(by_metric.values())]
    match_kinds = sorted({link["kind"] for each in every for link in each["links"]})
    colours = {kind: _COLOURS[k % len(_COLOURS)] for k, kind in enumerate(match_kinds)}
    parts: list[RenderableType] = []
    for explanation, by_metric in zip(explanations, evidence, strict=True):
        text = explanation.caption.candidate
        parts.append(Rule(Text(escape_controls(explanation.caption.id), style="bold"), align="left", style="dim"))
        if text.split() not in [list(each["candidate"]) for each in by_metric.values()]:  # else it is shown with marks
            parts.append(Text(escape_controls(text) or "(empty)", style="bold"))
        for metric_name, each in by_metric.items():
            score = f"{scale * explanation.scores[metric_name]:.{default_digits(scale)}f}"
            parts.append(_evidence_table(metric_name, each, colours, score))
            members = (_evidence_table(member, inner, colours) for member, inner in each.get("members", {}).items())
            parts.extend(Padding(member, (0, 0, 0, 4)) for member in members)
        parts.append(Text(""))
    mark_kinds = sorted({mark["kind"] for each in every for mark in each["marks"]})
    legend = Text()
    for label, styles in (("matched", colours), ("marked", {kind: _mark_style(kind) for kind in mark_kinds})):
        if styles:
            legend.append(f"{label}: ", style="dim")
        for kind, style in styles.items():
            legend.append(kind, style=style).append("  ")
    return Group(*parts, legend)


def _with_members(evidence: Iterable[EvidenceData]) -> Iterator[EvidenceData]:
    """Each metric's evidence, followed by that of its members."""
    for metric_evidence in evidence:
        yield metric_evidence
        yield from _with_members(metric_evidence.get("members", {}).values())


def _evidence_table(name: str, evidence: EvidenceData, colours: Mapping[str, str], score: str = "") -> RenderableType:
    """One metric's evidence; a composite metric shows the words with its members."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    if len(name) > _LABEL_WIDTH:  # in a line of its own, so that the words have the width
        heading = Text("\n").append(name, style="bold").append(f"  {score}")
    else:
        heading = Text("")
        table.add_row(Text(name, style="bold"), Text(score))
    for label, line in _evidence_lines(evidence, colours):
        table.add_row(Text(label, style="dim"), line if isinstance(line, Text) else Text(escape_controls(line)))
    return Group(heading, table)


def _evidence_lines(evidence: EvidenceData, colours: Mapping[str, str]) -> Iterator[tuple[str, Text | str]]:
    """The lines of the table: a label and what it says."""
    from rich.text import Text

    facts, word_scores = evidence["facts"].items(), evidence.get("word_scores", [])
    is_of_words = any(evidence.get(name) for name in ("links", "marks", "word_scores", "members"))
    answers = bool(facts) and not is_of_words and all(isinstance(value, str) for _, value in facts)  # of a judge
    if "sentences" in evidence:
        yield from _sentence_lines(evidence, colours)
    elif "members" not in evidence:
        if wrong := [mark for mark in evidence["marks"] if mark["side"] == "candidate" and mark["kind"] in _WRONG]:
            texts = (" ".join(evidence["candidate"][slice(*mark["place"])]) for mark in wrong)
            yield "wrong", ", ".join(f"{text} ({mark['kind']})" for text, mark in zip(texts, wrong, strict=True))
        yield "caption", _words_line(evidence, None, colours)
        for k in range(len(evidence["references"])):
            label = "reference" if len(evidence["references"]) == 1 else f"reference {k + 1}"
            yield label, _words_line(evidence, k, colours)
        compares_words = "scene" not in evidence and "regions" not in evidence and not answers
        if compares_words and (evidence["links"] or not (evidence["marks"] or word_scores)):
            yield "matched", _matches_line(evidence, colours)
    if "scene" in evidence and "members" not in evidence:
        yield from _tuple_lines(evidence["scene"]["tuples"])
    if word_scores and "sentences" not in evidence:
        pairs = zip(evidence["candidate"], word_scores, strict=True)
        yield "words", "  ".join(f"{word} {score:.2f}" for word, score in pairs)
    if answers:
        yield "answers", Text("\n".join(escape_controls(f"{question}: {answer}") for question, answer in facts))
    elif facts:
        yield "facts", "   ".join(f"{fact_name} {_format_number(value)}" for fact_name, value in facts)
    if "contributions" in evidence:
        yield from _contribution_lines(evidence["contributions"])
    if "regions" in evidence:
        regions = evidence["regions"]
        labels = regions["labels"] or [""] * len(regions["weights"])
        heaviest = sorted(zip(labels, regions["boxes"], regions["weights"], strict=True), key=lambda each: -each[2])
        lines = (
            f"{label or 'region'} {_format_number(weight)} at {', '.join(f'{number:.2f}' for number in box)}"
            for label, box, weight in heaviest[:_MAX_REGIONS]
        )
        yield "regions", Text("\n".join(map(escape_controls, lines)))


def _contribution_lines(contributions: Mapping[str, Any]) -> Iterator[tuple[str, Text | str]]:
    """The logit as a sum: the base's, then the contributions, the largest first."""
    from rich.text import Text

    base, start = contributions["base"], contributions["base_logit"]
    yield "logit", f"{contributions['logit']:.3f} = {start:.3f} ({base}) + contributions"
    for each in sorted(contributions["inputs"], key=lambda each: -abs(each["contribution"])):
        contribution = each["contribution"]
        style = "green" if contribution > 0 else "red" if contribution < 0 else "dim"
        line = Text(f"{contribution:+8.3f}", style=style)
        line.append(f"  {escape_controls(each['input'])} {_format_number(each['value'])}", style="")
        yield "", line.append(f" (base {_format_number(each['base_value'])})", "dim")


def _sentence_lines(evidence: EvidenceData, colours: Mapping[str, str]) -> Iterator[tuple[str, Text | str]]:
    """A document: each sentence of the caption under its verdict, what contradicts it, and the missing sentences."""
    for sentence in evidence["sentences"]:
        if sentence["verdict"] == "covered":
            continue
        line = _words_line(evidence, sentence["reference_index"], colours, sentence["place"])
        if sentence["verdict"] in ("contradicted", "unsupported"):
            line.append(escape_controls(f"[nearest: {' '.join(sentence['judged_by'])}]"), style="dim")
        yield f"{sentence['verdict']} {sentence['score']:.2f}", line
    covered_count = sum(sentence["verdict"] == "covered" for sentence in evidence["sentences"])
    yield "covered", f"{covered_count} sentences of the references"


def _words_line(
    evidence: EvidenceData, reference: int | None, colours: Mapping[str, str], place: Sequence[int] | None = None
) -> Text:
    """The words of the candidate (None) or of a reference, each in the colour of its longest match."""
    from rich.text import Text

    tokens = evidence["candidate"] if reference is None else evidence["references"][reference]
    token_styles: dict[int, str] = {}
    for link in sorted(evidence["links"], key=lambda link: link["candidate"][1] - link["candidate"][0]):
        if reference in (None, link["reference_index"]):
            span = link["candidate" if reference is None else "reference"]
            token_styles.update(dict.fromkeys(range(*span), colours[link["kind"]]))
    for mark in evidence["marks"]:
        if (mark["reference_index"] if mark["side"] == "reference" else None) == reference:
            for i in range(*mark["place"]):
                token_styles[i] = f"{token_styles.get(i, '')} {_mark_style(mark['kind'])}".strip()
    line = Text()
    for i in range(*(place or (0, len(tokens)))):
        line.append(escape_controls(tokens[i]), style=token_styles.get(i, "")).append(" ")
    return line if tokens else Text("(no words)", style="dim")


def _mark_style(kind: str) -> str:
    if any(word in kind for word in _STRUCK):
        return "strike dim"
    if kind in _WRONG:
        return "bold red"
    return {"unmatched": "dim", "raises": "green", "lowers": "red"}.get(kind, "underline")


def _matches_line(evidence: EvidenceData, colours: Mapping[str, str]) -> Text:
    """The heaviest distinct matches, each with its weight."""
    from rich.text import Text

    kinds: dict[tuple[str, str, float], str] = {}
    for link in sorted(evidence["links"], key=lambda link: -link["weight"]):
        kinds.setdefault((link["words"], link["reference_words"], link["weight"]), link["kind"])
    line = Text("" if kinds else "nothing")
    for (candidate, reference, weight), kind in list(kinds.items())[:_MAX_MATCHES]:
        words = candidate if candidate == reference else f"{candidate} ~ {reference}"
        line.append(escape_controls(words), style=colours[kind]).append(f" {_format_number(weight)}   ", style="dim")
    if len(kinds) > _MAX_MATCHES:
        line.append(f"and {len(kinds) - _MAX_MATCHES} more", style="dim")
    return line


def _tuple_lines(tuples: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Text | str]]:
    """The tuples of each kind: the common ones, then those on one side only, each with its nearest on the other."""
    from rich.text import Text

    for kind in ("object", "attribute", "relation"):
        of_kind = [each for each in tuples if each["kind"] == kind]
        candidate = [each for each in of_kind if each["side"] == "candidate"]
        yield (
            f"{kind}s in common",
            ", ".join(format_tuple(each["words"]) for each in candidate if each["matched"]) or "nothing",
        )
        missing = [each for each in of_kind if each["side"] == "reference" and not each["matched"]]
        unmatched = [each for each in candidate if not each["matched"]]
        for label, one_sided in (("in caption only", unmatched), ("missing", missing)):
            line = Text()
            for number, each in enumerate(one_sided):
                line.append(", " if number else "").append(escape_controls(format_tuple(each["words"])))
                if each["nearest"] is not None:
                    line.append(f" (nearest: {escape_controls(format_tuple(each['nearest']))})", style="dim")
            if one_sided:
                yield label, line


def _format_number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
