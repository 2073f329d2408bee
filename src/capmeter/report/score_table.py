"""Scores of systems as tables, and for programs: all metrics, single references, and CHAIR as papers report it.

>>> describe_note("truncated", ["2"], {"1", "2"}), describe_note("cleaned_of_chat_artifacts", ["7", "12"], {"7", "12"})
('truncated: caption 2', 'cleaned of chat artifacts: 2 captions: 7, 12')
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from capmeter.core.messages import format_count, list_names
from capmeter.evaluation.results import Ids, Results, Scores, enclose_systems, resample_scores
from capmeter.report.tables import Table, default_digits, format_scale, name_metrics
from capmeter.stats.bootstrap import percentile_interval
from capmeter.stats.significance import LEVEL, Ranking, significance_threshold

_LONGEST = 200  # letters of an entry that is a sentence, such as what to do


def describe_note(reason: str, entries: Sequence[str], captions: Container[str] = ()) -> str:
    """A note of a caption set (`skipped_without_references`) with its first entries.

    Args:
        reason: of the note.
        entries: the ids of captions that it applies to; for some reasons other texts, such as names of fields.
        captions: the ids of captions.
    """
    are_captions = reason.startswith("skipped") or all(entry in captions for entry in entries)
    listed_entries = list_captions(entries) if are_captions else list_names(entries, length=_LONGEST)
    return f"{reason.replace('_', ' ')}: {listed_entries}"


def list_captions(ids: Sequence[str]) -> str:
    """The first of these captions, with their number, so that an id is not read as one."""
    return f"caption {list_names(ids)}" if len(ids) == 1 else f"{len(ids):,} captions: {list_names(ids)}"


SCORED_SHARE = "scored_share"  # the part that says how many captions have a score


def score_table(
    systems: Mapping[str, Results],
    rankings: Mapping[str, Ranking] | None = None,
    digits: int = 4,
    scale: float = 1,
    untested: str = "",
    systems_as_rows: bool = False,
) -> Table:
    """One row per metric for a single system; else systems and metrics, the more numerous downward.

    With their rankings (by metric), scores have intervals where there are any, and the best of each metric are bold:
    the best score and all that are not significantly worse. Scores are multiplied by `scale`; `untested` says why none
    are bold. A score of only some captions (a judge did not answer for all) is followed by their number.

    Args:
        systems: the scores.
        rankings: by metric; None: no intervals.
        digits: decimals.
        scale: by which scores are multiplied.
        untested: why differences were not tested.
        systems_as_rows: whether each system has a row also where there are more metrics, or one system.
    """
    every_name = dict.fromkeys(name for results in systems.values() for name in results)
    metrics = name_metrics(every_name, lower_is_better_in(systems))
    level = next(iter(rankings.values())).level if rankings else LEVEL
    has_intervals = rankings is not None and any(each.intervals for each in rankings.values())
    noun = name_items(systems.values())
    title = _describe_counts([results.ids for results in systems.values()], noun) + format_scale(scale)

    def cell(system: str, metric: str) -> list[str]:
        if metric not in set(systems[system]):
            return ["-"]
        scores = systems[system][metric]
        score = f"{scale * scores.score:.{digits}f}"
        if scores.parts.get(SCORED_SHARE, 1.0) < 1:
            score += f" ({format_share(scores.parts[SCORED_SHARE], len(systems[system].ids.names))})"
        if rankings is None or system not in rankings[metric].intervals:
            return [score]
        interval = rankings[metric].intervals[system]
        low, high = scale * interval.low, scale * interval.high
        return [score, f"[{low:.{digits}f}, {high:.{digits}f}]"]

    if len(systems) == 1 and not systems_as_rows:
        (system,) = systems
        heads = ["metric", "score"] + ([f"{100 * level:g}% interval"] if has_intervals else [])
        rows = [[short, *cell(system, metric), ""][: len(heads)] for metric, short in metrics.items()]
        return Table(title, heads, rows, [False] + [True] * (len(heads) - 1))
    rows = [[system, *(" ".join(cell(system, metric)) for metric in metrics)] for system in systems]
    heads = ["system", *metrics.values()]
    best, marks = _best_and_marks(list(systems), [rankings[metric] for metric in metrics] if rankings else [])
    if len(metrics) > len(systems) and not systems_as_rows:  # the longer side downward, so that it fits a screen
        heads, *rows = (list(line) for line in zip(heads, *rows, strict=True))
        heads[0] = "metric"
        best = {(m - 1, s + 1) for s, m in best}
        marks = {(m - 1, s + 1): text for (s, m), text in marks.items()}
    notes = [f"in brackets: {100 * level:g}% interval, {noun}s resampled with replacement"] if has_intervals else []
    if best:
        notes.append(
            "bold: the best of each metric, and all that are not significantly worse (paired permutation test, "
            f"Holm, p < {significance_threshold(level):g})"
        )
    note = "; ".join([*notes, *filter(None, [untested.rstrip(".")])])
    return Table(title, heads, rows, [False] + [True] * (len(heads) - 1), note, best, marks if best else {})


def _best_and_marks(
    systems: Sequence[str], rankings: Sequence[Ranking]
) -> tuple[set[tuple[int, int]], dict[tuple[int, int], str]]:
    """Where the best of each metric stand if systems are rows; and each system's letter, and those that it exceeds."""
    letters = system_letters(systems)
    best, marks = set(), {(s, 0): letter for s, letter in enumerate(letters.values())}
    for m, ranking in enumerate(rankings, 1):
        best |= {(s, m) for s, system in enumerate(systems) if system in ranking.best()}
        for s, system in enumerate(systems):
            worse_systems = ranking.significantly_worse(system)
            marks[s, m] = "".join(letter for other, letter in letters.items() if other in worse_systems)
    return best, marks


def system_letters(systems: Sequence[str]) -> dict[str, str]:
    """The letter of each system, by which tables refer to it; none for a single system or too many."""
    return {name: chr(ord("a") + k) for k, name in enumerate(systems)} if 1 < len(systems) <= 26 else {}


def format_share(share: float, count: int) -> str:
    """How many of the captions a share is.

    >>> format_share(0.2, 60)
    '12 of 60'
    """
    return f"{round(share * count):,} of {count:,}"


def name_items(systems: Iterable[Results], column: str = "") -> str:
    """What captions are of, an image, video or sound, as far as their events and the column of images say.

    Args:
        systems: their results.
        column: where there are no results, the name of that column.
    """
    results = list(systems)
    names = " ".join([column, *(name for each in results for name in each.notes.get("images_by", ()))]).casefold()
    videos = [video for each in results if each.captions is not None for video in each.captions.events if video]
    has_times = any(len(time) == 2 for video in videos for time in video.candidate.times)
    if has_times or any(word in names for word in ("video", "clip", "youtube")):
        return "video"
    return "sound" if any(word in names for word in ("audio", "sound", "wav")) else "image"


def _describe_counts(systems: Sequence[Ids], noun: str = "image") -> str:
    """How many captions and images every system has: one number, or the least and the most."""
    counts = [(len(ids.names), len(ids.clusters)) for ids in systems]
    captions, images = (
        ("" if min(of_systems) == max(of_systems) else f"{min(of_systems):,} to ")
        + format_count(max(of_systems), counted_noun)
        for of_systems, counted_noun in zip(zip(*counts, strict=True), ("caption", noun), strict=True)
    )
    return f"{captions} of {images}" + " each" * (len(systems) > 1 and len(set(counts)) == 1)


def lower_is_better_in(systems: Mapping[str, Results]) -> list[str]:
    """The metrics of these results for which lower is better."""
    return list(
        dict.fromkeys(name for results in systems.values() for name, each in results.items() if each.lower_is_better)
    )


def scores_to_dict(systems: Mapping[str, Results], rankings: Mapping[str, Ranking] | None = None) -> dict[str, Any]:
    """Scores, intervals, parts, notes and signatures, in the layout of `--output` without the captions' own scores.

    Of several systems also whether each is among the best, and which systems it is significantly better than.
    """

    def metric_scores(system: str, metric: str) -> dict[str, Any]:
        scores = systems[system][metric]
        ranking = None if rankings is None else rankings[metric]
        tested: dict[str, Any] = {}
        if ranking is not None and system in ranking.intervals:
            tested = {"low": ranking.intervals[system].low, "high": ranking.intervals[system].high}
        if ranking is not None and ranking.p:
            tested |= {"best": system in ranking.best(), "above": sorted(ranking.significantly_worse(system))}
        return {
            "score": scores.score,
            **tested,
            "parts": scores.parts,
            "signature": scores.signature,
            "notes": scores.notes,
        }

    return enclose_systems(
        {
            system: {
                "counts": {"captions": len(results.ids.names), "images": len(results.ids.clusters)},
                "metrics": {name: metric_scores(system, name) for name in results},
                "notes": results.notes,
            }
            for system, results in systems.items()
        }
    )


HEADS = {"chair-s": "CHAIRs", "chair-i": "CHAIRi", "recall": "recall", "f1": "F1", "length": "tokens"}
Intervals = Mapping[str, tuple[float, float]]


def part_intervals(scores: Scores, *, level: float, resamples: int, seed: int) -> Intervals:
    """The interval of each part of a score, by bootstrap over images.

    Args:
        scores: with their rows.
        level: such as 0.95.
        resamples: their number.
        seed: of the resamples.
    """
    resampled = resample_scores([scores], scores.items.ids.clusters, resamples, seed)[scores.name]
    return {name: percentile_interval(resampled[name], level) for name in scores.parts}


def chair_table(systems: Mapping[str, Scores], intervals: Mapping[str, Intervals], scale: float, level: float) -> Table:
    """One row per system; shares, each with its interval.

    Args:
        systems: the scores of `chair`.
        intervals: those of their parts.
        scale: by which shares are multiplied.
        level: of the intervals.
    """

    def cell(system: str, part: str) -> str:
        factor, digits = (1, 1) if part == "length" else (scale, max(0, default_digits(scale) - 1))
        values = (systems[system].parts[part], *intervals[system][part])
        score, low, high = (f"{factor * value:.{digits}f}" for value in values)
        return f"{score} [{low}, {high}]"

    rows = [[system, *(cell(system, part) for part in HEADS)] for system in systems]
    note = (
        f"× {scale:g} but for tokens; CHAIRs, CHAIRi: lower is better; in brackets: {100 * level:g}% interval, images "
        "resampled with replacement"
    )
    title = _describe_counts([scores.items.ids for scores in systems.values()])
    return Table(title, ["system", *HEADS.values()], rows, [False] + [True] * len(HEADS), note)


def chair_to_dict(systems: Mapping[str, Scores], intervals: Mapping[str, Intervals], level: float) -> dict[str, Any]:
    """The same as JSON values, as shares.

    Args:
        systems: the scores of `chair`.
        intervals: those of their parts.
        level: of the intervals.
    """
    return {
        "level": level,
        "systems": {
            system: {
                "signature": scores.signature,
                **{part: {"score": scores.parts[part], "interval": list(intervals[system][part])} for part in HEADS},
            }
            for system, scores in systems.items()
        },
    }


def citation(scores: Scores, intervals: Intervals, level: float) -> str:
    """A line ready to cite: both rates with their intervals, and how they were computed.

    Args:
        scores: those of `chair`.
        intervals: of its parts.
        level: of the intervals.
    """
    rates = ", ".join(
        f"{HEADS[part]} {100 * scores.parts[part]:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        for part, (low, high) in ((part, intervals[part]) for part in ("chair-s", "chair-i"))
    )
    size = _describe_counts([scores.items.ids])
    return f"{rates} ({size}, {100 * level:g}% bootstrap intervals; {scores.signature})"
