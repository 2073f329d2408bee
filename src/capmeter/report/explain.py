"""Why captions got their scores: the evidence of one caption or of the worst, for people and for programs.

Nothing here is specific to a metric: all `Evidence` is shown the same way.

>>> from capmeter.captions.io import load
>>> captions = load(["a dog runs"], [["the dog is running", "a dog runs fast"]])
>>> (found,) = explain(captions, "rouge-l")
>>> found.evidence["rouge-l"].candidate, round(found.scores["rouge-l"], 3)
(('a', 'dog', 'runs'), 0.836)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.base import Metric
from capmeter.metrics.contributions import Contributions
from capmeter.metrics.evaluation import Evaluation
from capmeter.metrics.evidence import Evidence, Mark
from capmeter.metrics.registry import parse, parse_list
from capmeter.metrics.scene_evidence import SceneEvidence
from capmeter.printable import printable
from capmeter.settings import Settings

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
    settings: Settings | None = None,
) -> list[Explanation]:
    """The evidence for these captions, or for the `worst` (or best) by the metric `by` (default: the first).

    All captions are scored, since document frequencies, for example, come from all of them. Without `ids` and `worst`
    every caption is explained. A metric without explanations is an `InputError`.
    """
    chosen = parse_list(metrics)
    mute = [str(metric) for metric in chosen if not metric.explains]
    if mute:
        raise InputError(f"{', '.join(mute)} cannot explain a score; leave it out, or choose a metric that can")
    ordering = chosen[0] if by is None else parse(by)
    metrics_shown = (*chosen, *(() if ordering in chosen else (ordering,)))
    evaluation = Evaluation(metrics_shown, settings or Settings()).collected(captions)
    results = evaluation.run(captions)
    if ids:
        rows = [captions.row(id) for id in ids]
    elif worst is not None:
        scores = results[ordering].items.array
        rows = np.argsort(-scores if best else scores, kind="stable")[:worst].tolist()
    else:
        rows = list(range(len(captions)))
    shown = list(results)
    found = {str(metric): evidence(captions, metric, rows, evaluation) for metric in chosen}
    return [
        Explanation(
            captions[captions.ids[row]],
            {name: float(results[name].items.array[row]) for name in shown},
            {name: each[k] for name, each in found.items()},
        )
        for k, row in enumerate(rows)
    ]


def evidence(
    captions: CaptionSet, metric: Metric, rows: Sequence[int], known: Evaluation | None = None
) -> list[Evidence]:
    """A metric's evidence for the captions at these positions; `known` is an evaluation that knows these captions."""
    known = known or Evaluation(())
    evaluation = replace(known, metrics=(metric,)).collected(captions)
    found: list[Evidence] = []
    for part in captions.select(rows).chunks(metric.ROWS):
        found.extend(evaluation.explain(part)[metric])
    return found


def to_dicts(explanations: Iterable[Explanation]) -> list[dict[str, Any]]:
    """The explanations as JSON values: a list with one object per caption."""
    return [
        {
            "id": each.caption.id,
            "image_id": each.caption.image_id,
            "candidate": each.caption.candidate,
            "references": list(each.caption.references),
            "scores": each.scores,
            "evidence": {name: _evidence_json(evidence) for name, evidence in each.evidence.items()},
        }
        for each in explanations
    ]


def _evidence_json(found: Evidence) -> dict[str, Any]:
    return {
        "candidate": list(found.candidate),
        "references": [list(tokens) for tokens in found.references],
        "links": [
            {
                "kind": link.kind,
                "candidate": list(link.candidate),
                "words": " ".join(found.candidate[slice(*link.candidate)]),
                "reference_index": link.reference_index,
                "reference": list(link.reference),
                "reference_words": " ".join(found.references[link.reference_index][slice(*link.reference)]),
                "weight": link.weight,
            }
            for link in found.links
        ],
        "marks": [
            {
                "side": mark.side,
                "reference_index": mark.reference_index,
                "place": [mark.start, mark.end],
                "kind": mark.kind,
                "weight": mark.weight,
            }
            for mark in found.marks
        ],
        "facts": dict(found.facts),
        **({"members": {name: _evidence_json(each) for name, each in found.members.items()}} if found.members else {}),
        **({} if found.scene is None else {"scene": found.scene.to_dict()}),
        **({} if found.contributions is None else {"contributions": found.contributions.to_dict()}),
        **({} if found.regions is None else {"regions": found.regions.to_dict()}),
        **({"word_scores": list(found.word_scores)} if found.word_scores else {}),
    }


_COLOURS = ("bright_blue", "green", "yellow", "magenta", "cyan", "bright_red", "bright_green", "bright_magenta")
_STRUCK = ("cut", "removed", "deleted")


def as_text(explanations: Sequence[Explanation]) -> RenderableType:
    """The explanations for a terminal: each side's words, coloured by how they were matched."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.rule import Rule
    from rich.text import Text

    everything = [found for each in explanations for found in _with_members(each.evidence.values())]
    kinds = sorted({link.kind for found in everything for link in found.links})
    colours = {kind: _COLOURS[k % len(_COLOURS)] for k, kind in enumerate(kinds)}
    parts: list[RenderableType] = []
    for each in explanations:
        parts.append(Rule(Text(printable(each.caption.id), style="bold"), align="left", style="dim"))
        parts.append(Text(printable(each.caption.candidate) or "(empty)", style="bold"))
        parts.append(Text("   ".join(f"{name} {score:.4f}" for name, score in each.scores.items()), style="dim"))
        for name, found in each.evidence.items():
            parts.append(_table(name, found, colours, each.scores[name]))
            parts.extend(
                Padding(_table(member, inner, colours), (0, 0, 0, 4)) for member, inner in found.members.items()
            )
        parts.append(Text(""))
    marks = sorted({mark.kind for found in everything for mark in found.marks})
    legend = Text()
    for label, styles in (("matched", colours), ("marked", {kind: _mark_style(kind) for kind in marks})):
        if styles:
            legend.append(f"{label}: ", style="dim")
        for kind, style in styles.items():
            legend.append(kind, style=style).append("  ")
    return Group(*parts, legend)


def _with_members(found: Iterable[Evidence]) -> Iterator[Evidence]:
    """Each metric's evidence, followed by that of its members."""
    for each in found:
        yield each
        yield from _with_members(each.members.values())


def _table(name: str, found: Evidence, colours: Mapping[str, str], score: float | None = None) -> RenderableType:
    """One metric's evidence; a composite metric shows the words with its members."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_row("", "")
    table.add_row(Text(name, style="bold"), Text("" if score is None else f"{score:.4f}"))
    if not found.members:
        table.add_row(Text("caption", style="dim"), _line(found, None, colours))
        for k in range(len(found.references)):
            label = "reference" if len(found.references) == 1 else f"reference {k + 1}"
            table.add_row(Text(label, style="dim"), _line(found, k, colours))
        if found.scene is None and found.regions is None:
            table.add_row(Text("matched", style="dim"), _matches(found, colours))
        for label, line in () if found.scene is None else _tuples(found.scene):
            table.add_row(Text(label, style="dim"), line)
    if found.word_scores:
        each = zip(found.candidate, found.word_scores, strict=True)
        words = "  ".join(f"{word} {score:.2f}" for word, score in each)
        table.add_row(Text("words", style="dim"), Text(printable(words)))
    if found.facts:
        facts = "   ".join(f"{fact} {_number(value)}" for fact, value in found.facts.items())
        table.add_row(Text("facts", style="dim"), Text(printable(facts)))
    for label, line in () if found.contributions is None else _contributions(found.contributions):
        table.add_row(Text(label, style="dim"), line)
    if found.regions is not None:
        seen = (
            f"{label or 'region'} {_number(weight)} at {', '.join(f'{number:.2f}' for number in box)}"
            for label, box, weight in found.regions.heaviest(5)
        )
        table.add_row(Text("regions", style="dim"), Text("\n".join(map(printable, seen))))
    return table


def _contributions(found: Contributions) -> Iterator[tuple[str, Text]]:
    """The logit as a sum: the base's, then the contributions, the largest first."""
    from rich.text import Text

    yield "logit", Text(f"{found.logit:.3f} = {found.start:.3f} ({printable(found.base)}) + contributions")
    for name, value, base, part in sorted(found.inputs, key=lambda each: -abs(each[3])):
        line = Text(f"{part:+8.3f}", style="green" if part > 0 else "red" if part < 0 else "dim")
        yield (
            "",
            line.append(f"  {printable(name)} {_number(value)}", style="").append(f" (base {_number(base)})", "dim"),
        )


def _line(found: Evidence, reference: int | None, colours: Mapping[str, str]) -> Text:
    """The words of the candidate (None) or of a reference, each in the colour of its longest match."""
    from rich.text import Text

    tokens = found.candidate if reference is None else found.references[reference]
    places = [
        (link.candidate if reference is None else link.reference, link.kind)
        for link in sorted(found.links, key=lambda link: link.candidate[1] - link.candidate[0])
        if reference is None or link.reference_index == reference
    ]
    style = {i: colours[kind] for (start, end), kind in places for i in range(start, end)}
    for mark in found.marks:
        if _of(mark, reference):
            for i in range(mark.start, mark.end):
                style[i] = f"{style.get(i, '')} {_mark_style(mark.kind)}".strip()
    line = Text()
    for i, token in enumerate(tokens):
        line.append(printable(token), style=style.get(i, "")).append(" ")
    return line if tokens else Text("(no words)", style="dim")


def _of(mark: Mark, reference: int | None) -> bool:
    return mark.reference_index == reference if mark.side == "reference" else reference is None


def _mark_style(kind: str) -> str:
    if any(word in kind for word in _STRUCK):
        return "strike dim"
    return "dim" if kind == "unmatched" else "underline"


def _matches(found: Evidence, colours: Mapping[str, str], most: int = 12) -> Text:
    """The heaviest distinct matches, each with its weight."""
    from rich.text import Text

    seen: dict[tuple[str, str, float], str] = {}
    for link in sorted(found.links, key=lambda link: -link.weight):
        mine = " ".join(found.candidate[slice(*link.candidate)])
        theirs = " ".join(found.references[link.reference_index][slice(*link.reference)])
        seen.setdefault((mine, theirs, link.weight), link.kind)
    line = Text("" if seen else "nothing")
    for (mine, theirs, weight), kind in list(seen.items())[:most]:
        words = mine if mine == theirs else f"{mine} ~ {theirs}"
        line.append(printable(words), style=colours[kind]).append(f" {_number(weight)}   ", style="dim")
    if len(seen) > most:
        line.append(f"and {len(seen) - most} more", style="dim")
    return line


def _tuples(scene: SceneEvidence) -> Iterator[tuple[str, Text]]:
    """The tuples of each kind: the common ones, then those on one side only, each with its nearest on the other."""
    from rich.text import Text

    for kind in ("object", "attribute", "relation"):
        mine = [each for each in scene.tuples if each.kind == kind and each.side == "candidate"]
        theirs = [each for each in scene.tuples if each.kind == kind and each.side == "reference" and not each.matched]
        agreed = ", ".join(phrase(each.words) for each in mine if each.matched)
        yield f"{kind}s in common", Text(printable(agreed) or "nothing")
        for label, alone in (("in caption only", [each for each in mine if not each.matched]), ("missing", theirs)):
            line = Text()
            for number, each in enumerate(alone):
                line.append(", " if number else "").append(printable(phrase(each.words)))
                if each.nearest is not None:
                    line.append(f" (nearest: {printable(phrase(each.nearest))})", style="dim")
            if alone:
                yield label, line


def phrase(words: tuple[str, ...]) -> str:
    """A readable tuple: "dog", "brown dog", "dog – run on – grass"."""
    return " – ".join(words) if len(words) == 3 else " ".join(reversed(words))


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
