"""Evidence for TBR's scores: which words were combined, matched, cut and removed."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from capmeter.captions.model import CaptionSet
from capmeter.encoders import StateTable, load_encoder
from capmeter.metrics.base import Floats
from capmeter.metrics.evidence import Evidence, Link, Mark
from capmeter.metrics.tbr import combination
from capmeter.metrics.tbr.combination import Flags
from capmeter.metrics.word_pieces import Pieces
from capmeter.ragged import Ragged
from capmeter.settings import Settings


class _Combining(Protocol):
    """The required interface of TBR: its parameters, the order of references, and the recall of each combination."""

    @property
    def encoder(self) -> str: ...
    @property
    def references(self) -> str: ...
    @property
    def cut(self) -> bool: ...
    @property
    def remove(self) -> bool: ...
    def threshold(self, settings: Settings) -> float: ...
    def ordered(self, part: CaptionSet, settings: Settings) -> Ragged: ...
    def recalls(
        self, references: Pieces, compared: combination.PieceComparison, beta: float
    ) -> tuple[Floats, Floats, Flags]: ...
    def members(self, references: Pieces, own: Flags, beta: float) -> Flags: ...


def explain_combination(
    metric: _Combining, part: CaptionSet, table: StateTable, weights: Floats, stop: Flags, settings: Settings
) -> list[Evidence]:
    """One evidence per caption. Marks on references: `base` and `combined` (added from another reference) make up the
    combined reference; `cut` marks its words without a match above β in the candidate, `removed` its stop words. On the
    candidate: `removed`, and `unmatched` for words that no piece of the combined reference matched.
    """
    ordered = metric.ordered(part, settings)
    return [
        _explain_row(metric, part, row, ordered[row].tolist(), table, weights, stop, settings)
        for row in range(len(part))
    ]


def _explain_row(
    metric: _Combining,
    part: CaptionSet,
    row: int,
    ordered: list[int],
    table: StateTable,
    weights: Floats,
    stop: Flags,
    settings: Settings,
) -> Evidence:
    """The evidence of one caption, on the base with the best score."""
    beta = metric.threshold(settings)
    spell = load_encoder(metric.encoder, settings).tokens
    sentence = int(part.candidates[row])
    candidate = Pieces.lay_out(table, Ragged.from_rows([[sentence]], np.int64))
    references = Pieces.lay_out(table, Ragged.from_rows([ordered], np.int64))
    compared = combination.compare(candidate, references, weights, stop)
    comb, removed, _ = metric.recalls(references, compared, beta)
    base = int(np.argmax(comb[0] * removed[0]))
    members = metric.members(references, combination.own_words(references), beta)[0, base]
    cut = beta if metric.cut else 0.0

    # the input position of each reference, since pieces are in the order in which references are added
    listed = part.references[row].tolist()
    number, free = [], list(range(len(listed)))
    for each in ordered:
        found = next(k for k in free if listed[k] == each)
        free.remove(found)
        number.append(found)
    starts = np.searchsorted(references.owner[0], np.arange(len(ordered)))
    similar = candidate.states[0] @ references.states[0].T
    similar[~candidate.word[0]] = -2

    links, marks, chosen = [], [], set()
    for t in np.flatnonzero(members).tolist():
        owner = int(references.owner[0, t])
        place = t - int(starts[owner]) - 1  # the begin token is not shown
        where = (number[owner], place, place + 1)
        if metric.references == "combine":
            marks.append(Mark("reference", *where, "base" if owner == base else "combined"))
        if metric.remove and not compared.kept[0, t]:
            marks.append(Mark("reference", *where, "removed"))
        best = int(similar[:, t].argmax())
        if similar[best, t] > cut:
            chosen.add(best - 1)
            links.append(Link((best - 1, best), where[0], where[1:], "embedding", float(similar[best, t])))
        else:
            marks.append(Mark("reference", *where, "cut", float(max(similar[best, t], -1.0))))
    ids = table.pieces[sentence][1:-1]
    for c, piece in enumerate(ids.tolist()):
        if metric.remove and stop[piece]:
            marks.append(Mark("candidate", None, c, c + 1, "removed"))
        if c not in chosen:
            marks.append(Mark("candidate", None, c, c + 1, "unmatched"))
    facts: dict[str, float | str] = {"r-comb": float(comb[0, base]), "r-rm": float(removed[0, base]), "beta": beta}
    if metric.references == "combine":
        facts["base"] = f"reference {number[base] + 1}"
    return Evidence(
        tuple(spell(ids)),
        tuple(tuple(spell(table.pieces[each][1:-1])) for each in listed),
        tuple(links),
        tuple(marks),
        facts,
    )
