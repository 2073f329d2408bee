"""Checks a file of captions before it is scored: what it holds, and what may be wrong with it.

Two kinds of finding: a *problem* prevents scoring or makes it wrong; a *warning* should be looked into.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from capmeter.captions.endings import cut_off
from capmeter.captions.formats import open_reading
from capmeter.captions.joining import How, Source, Sources, joined
from capmeter.captions.matching import ReferenceTable
from capmeter.captions.model import Caption, CaptionSet
from capmeter.captions.rows import Side, named
from capmeter.captions.scripts import unspaced
from capmeter.captions.writing import side_of
from capmeter.errors import InputError

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SPECIAL = re.compile(
    r"</?s>|<(?:pad|unk|eos|bos|start|end|mask|\|[a-z]+\|)>|\[(?:CLS|SEP|PAD|UNK|MASK)\]", re.IGNORECASE
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffd]")
_LONG = 1000
_OWN_TO_OTHER = 1.1
_CUT_OFF = 0.02  # people end fewer than one caption in a hundred in a function word


@dataclass
class Findings:
    """What a file of captions holds (`facts`, by name), and what is wrong with it."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the captions can be scored as they are."""
        return not self.problems


def examine(
    source: Source,
    references: Source | None = None,
    *,
    format: str | None = None,
    references_format: str | None = None,
    system: str | None = None,
    split: str | None = None,
    side: Side | None = None,
    columns: Mapping[str, str] | None = None,
) -> Findings:
    """Checks a file of captions, alone or with the file of its references; a mistake in it is a finding."""
    findings = Findings()
    how = How(
        format=format,
        references_format=references_format,
        on_missing="keep",
        system=system,
        split=split,
        columns=columns,
    )
    try:
        reading = open_reading(source, format, columns=columns)
        findings.facts["format"] = reading.format
        if references is None and (side or side_of(reading)) == "references":
            table = ReferenceTable.collect(reading.rows("references"), reading.name, split)
            _look_at_references(table, findings)
        else:
            sources = Sources(source, references, how)
            if sources.references_format is not None:
                findings.facts["references format"] = sources.references_format
            found = joined(sources)
            captions = CaptionSet.from_captions(found.captions, notes=found.notes)
            _look_at_captions(captions, findings, apart=references is not None)
            reading = sources.reading
        if reading.columns.layout is not None:
            findings.facts["layout"] = reading.columns.layout.holds
        if reading.ignored:
            findings.facts["fields not used"] = sorted(reading.ignored)
    except InputError as error:
        findings.problems.append(str(error))
    return findings


def _look_at_references(table: ReferenceTable, findings: Findings) -> None:
    facts = findings.facts
    facts["holds"] = "references"
    facts["images"] = len(table.references)
    if table.splits:
        facts["splits"] = dict(Counter(table.splits.get(image_id, "") for image_id in table.references))
    _count_references([len(texts) for texts in table.references.values()], findings)
    without = [image_id for image_id, texts in table.references.items() if not texts]
    if without:
        findings.warnings.append(f"images without a reference: {len(without):,} ({named(without)})")
    empty = [image_id for image_id, texts in table.references.items() if not all(text.strip() for text in texts)]
    if empty:
        findings.warnings.append(f"images with an empty reference: {len(empty):,} ({named(empty)})")
    _look_at_texts(
        ((image_id, text) for image_id, texts in table.references.items() for text in texts), "references", findings
    )


def _look_at_captions(captions: CaptionSet, findings: Findings, *, apart: bool) -> None:
    facts, notes = findings.facts, captions.notes
    rows = list(captions)
    facts["holds"] = "candidates and references" if len(captions.references.values) else "candidates"
    facts["captions"] = len(rows)
    facts["images"] = len(set(captions.image_ids))
    systems = Counter(system for system in captions.systems if system is not None)
    if systems:
        facts["systems"] = dict(systems)
    without = notes.get("kept_without_references", [])
    if len(without) == len(rows) and not apart:
        facts["references"] = "none; name their file with --references"
    else:
        _count_references(captions.references.lengths.tolist(), findings)
        if without:
            findings.problems.append(
                f"candidates without references: {len(without):,} of {len(rows):,} ({named(without)})"
            )
    unused = notes.get("references_without_candidate", [])
    if unused:
        findings.warnings.append(f"images with references but no candidate: {len(unused):,} ({named(unused)})")
    if "matched_by" in notes:
        facts["images matched by"] = notes["matched_by"][0]
    facts["distinct candidates"] = len(set(captions.candidates.tolist()))
    empty = [row.id for row in rows if not row.candidate.strip()]
    facts["empty candidates"] = len(empty)
    if empty:
        findings.warnings.append(f"empty candidates, which get the lowest score: {len(empty):,} ({named(empty)})")
    repeated = notes.get("repeated_candidates", [])
    if repeated:
        findings.warnings.append(
            "candidates that repeat an earlier one of the same image, as padded data loaders produce: "
            f"{len(repeated):,} ({named(repeated)})"
        )
    _look_at_ends(rows, findings)
    joined = [row.id for row in rows if unspaced(row.candidate)]
    if 2 * len(joined) > len(rows):
        findings.warnings.append(
            f"candidates without spaces between words, as in Chinese or Japanese: {len(joined):,} ({named(joined)}); "
            "choose a tokenizer, such as -m 'bleu-4(tokenizer=char)' (docs/languages.md)"
        )
    texts, counts = Counter(row.candidate for row in rows), len(rows)
    common, often = texts.most_common(1)[0]
    if counts >= 20 and often > counts / 5:
        findings.warnings.append(f'{often:,} of {counts:,} candidates are the same: "{common[:60]}"')
    _look_at_texts(((row.id, row.candidate) for row in rows), "candidates", findings)
    if len(without) < len(rows):
        _compare_words(captions, findings)


def _look_at_ends(rows: Sequence[Caption], findings: Findings) -> None:
    """Counts the candidates that end in a function word: by system, where there are several."""
    candidates: dict[str, dict[str, str]] = {}
    for row in rows:
        candidates.setdefault(row.system or "", {})[row.id] = row.candidate
    ends = {system: cut_off(texts) for system, texts in candidates.items()}
    counts = {system: len(ids) for system, ids in ends.items()}
    findings.facts["candidates that end in a function word"] = counts if len(counts) > 1 else sum(counts.values())
    for system, ids in ends.items():
        texts = candidates[system]
        if len(ids) > _CUT_OFF * len(texts):
            of_whom = f" of {system}" if len(counts) > 1 else ""
            examples = ", ".join(f'{id} "… {" ".join(texts[id].split()[-4:])}"' for id in ids[:3])
            more = f" and {len(ids) - 3:,} more" if len(ids) > 3 else ""
            findings.warnings.append(
                f"candidates{of_whom} that end in a function word, as truncated captions do: {len(ids):,} of "
                f"{len(texts):,} ({examples}{more})"
            )


def _count_references(lengths: Sequence[int], findings: Findings) -> None:
    findings.facts["references"] = sum(lengths)
    findings.facts["references per caption"] = {"min": min(lengths), "median": median(lengths), "max": max(lengths)}


def _look_at_texts(texts: Iterable[tuple[str, str]], side: Side, findings: Findings) -> None:
    seen: dict[str, list[str]] = {}
    for id, text in texts:
        if len(text) > _LONG:
            seen.setdefault(f"texts longer than {_LONG:,} characters", []).append(id)
        if _SPECIAL.search(text):
            seen.setdefault("special tokens such as <eos>, which would be scored as words", []).append(id)
        if _CONTROL.search(text):
            seen.setdefault("control or replacement characters", []).append(id)
    for what, ids in seen.items():
        findings.warnings.append(f"{what}: in {len(ids):,} of the {side} ({named(dict.fromkeys(ids))})")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _compare_words(captions: CaptionSet, findings: Findings) -> None:
    """Lengths, and how many of a candidate's words its own references have, and another image's."""
    words = [_words(sentence) for sentence in captions.pool.sentences]
    rows = [row for row in range(len(captions)) if len(captions.references[row])]
    candidates = {row: words[captions.candidates[row]] for row in rows}
    references = {row: [word for index in captions.references[row] for word in words[index]] for row in rows}
    lengths = [len(words[index]) for row in rows for index in captions.references[row]]
    mean_candidate, mean_reference = fmean(len(found) for found in candidates.values()), fmean(lengths)
    findings.facts["words per candidate"] = round(mean_candidate, 2)
    findings.facts["words per reference"] = round(mean_reference, 2)
    if mean_reference:
        findings.facts["length ratio"] = round(mean_candidate / mean_reference, 3)
    vocabulary = {word for found in candidates.values() for word in found}
    if not vocabulary:
        return
    known = {word for found in references.values() for word in found}
    findings.facts["candidate words that references know"] = round(len(vocabulary & known) / len(vocabulary), 3)
    others = _rows_of_other_images(captions, rows)
    own = _shared(candidates, references, {row: row for row in rows})
    findings.facts["words found in own references"] = round(own, 3)
    if others:
        other = _shared(candidates, references, others)
        findings.facts["words found in another image's references"] = round(other, 3)
        if len(others) >= 20 and own < _OWN_TO_OTHER * other:
            findings.warnings.append(
                f"candidates share no more words with their own references ({own:.0%}) than with those of other images "
                f"({other:.0%}): do the references belong to these images?"
            )


def _rows_of_other_images(captions: CaptionSet, rows: Sequence[int]) -> dict[int, int]:
    """For each row one of another image, half the set away."""
    shift = len(rows) // 2
    pairs = {row: rows[(place + shift) % len(rows)] for place, row in enumerate(rows)}
    return {row: other for row, other in pairs.items() if captions.image_ids[row] != captions.image_ids[other]}


def _shared(candidates: dict[int, list[str]], references: dict[int, list[str]], pairs: dict[int, int]) -> float:
    """The mean share of a candidate's distinct words that occur in the references of its partner."""
    shares = [
        len(set(candidates[row]) & set(references[other])) / len(set(candidates[row]))
        for row, other in pairs.items()
        if candidates[row]
    ]
    return fmean(shares) if shares else 0.0
