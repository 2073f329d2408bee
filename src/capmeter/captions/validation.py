"""Checks a file of captions before it is scored: what it holds, and what may be wrong with it.

There are two kinds of findings: a *problem* prevents scoring or makes scores wrong; a *warning* should be looked into.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import CaptionLoader, ReferenceTable, read_table
from capmeter.captions.rows import Side
from capmeter.captions.text_checks import COPIED, ReferenceFit, check_captions, check_texts, find_ids, is_blank
from capmeter.captions.words import is_truncated, is_unsegmented
from capmeter.captions.writing import detect_side
from capmeter.core.errors import InputError
from capmeter.core.messages import list_names, shorten

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords

_LONG, _LONGER = 1000, 14  # characters; words
_MAX_TRUNCATED = 0.02  # fewer than one human caption in a hundred ends in a function word


@dataclass
class Findings:
    """What a file of captions holds (`facts`, by name), and what may be wrong with it."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the captions can be scored as they are."""
        return not self.problems

    def warn(self, problem: str, ids: Sequence[str], advice: str = "") -> None:
        """Adds a warning about these captions or images, if there are any.

        Args:
            problem: what may be wrong.
            ids: of the captions or images; the first are named.
            advice: ends the warning.
        """
        if ids:
            self.warnings.append(f"{problem}: {len(ids):,} ({list_names(ids)}){advice}")


def examine(
    source: Source,
    references: Source | None = None,
    *,
    side: Side | None = None,
    options: LoadOptions | None = None,
    **keywords: Unpack[LoadKeywords],
) -> Findings:
    """Checks a file of captions, alone or with the file of its references; a mistake in it is a finding.

    Args:
        source: a file in any format, or its content.
        references: the references, if they are in a separate source.
        side: what the source holds, if `{id: [caption, ...]}` could be either.
        options: how the captions are read.
        keywords: fields of `LoadOptions`, which replace those of `options`.
    """
    findings = Findings()
    options = LoadOptions.from_keywords(options, {**keywords, "on_missing": "keep"}, references)
    try:
        loader = CaptionLoader.open(source, options)
        reader = loader.reader
        findings.facts["format"] = reader.format
        if options.references is None and (side or detect_side(reader)) == "references":
            _check_references(read_table(reader, options.splits), findings)
        else:
            rows = loader.read()
            if loader.table is not None:
                findings.facts["references format"] = loader.table.format
            _check_captions(loader.make_set(*loader.match(rows)), loader.table is not None, findings)
        if reader.fields.layout is not None:
            findings.facts["layout"] = reader.fields.layout.holds
        for assumption, details in reader.fields.notes.items():
            findings.facts[assumption.replace("_", " ")] = list(details)
        if reader.fields.ignored:
            findings.facts["fields not used"] = sorted(reader.fields.ignored)
    except InputError as error:
        findings.problems.append(str(error))
    return findings


def _check_references(table: ReferenceTable, findings: Findings) -> None:
    facts = findings.facts
    facts["holds"] = "references"
    references, omitted = table.references, table.omitted
    facts["images"] = len(references)
    if any(row.split is not None for row in table.rows.values()):
        facts["splits"] = dict(Counter(row.split or "" for row in table.rows.values()))
    _count_references([len(texts) for texts in references.values()], findings)
    bare_ids = [image_id for image_id, texts in references.items() if not texts]
    findings.warn("images without a reference", [image_id for image_id in bare_ids if image_id not in omitted])
    findings.warn(
        f"images of which all references are left out ({', '.join(sorted(set(omitted.values())))})",
        [image_id for image_id in bare_ids if image_id in omitted],
    )
    empty_ids = [id for id, texts in references.items() if any(is_blank(text, or_punctuation=True) for text in texts)]
    findings.warn("images with an empty reference", empty_ids)
    image_ids = [image_id for image_id, texts in references.items() for _ in texts]
    _check_texts(image_ids, [text for texts in references.values() for text in texts], "references", findings)


def _check_captions(captions: CaptionSet, are_separate: bool, findings: Findings) -> None:
    """Checks candidates and their references, which are or are not in a separate file."""
    facts, notes = findings.facts, defaultdict(list, captions.notes)
    texts = [captions.pool[k] for k in captions.candidates.tolist()]
    text_counts = Counter(texts)
    facts["holds"] = "candidates and references" if len(captions.references.values) else "candidates"
    facts["captions"] = len(captions)
    facts["images"] = len(set(captions.image_ids))
    systems = Counter(system for system in captions.systems if system is not None)
    if systems:
        facts["systems"] = dict(systems)
    ids_without = notes["kept_without_references"]
    if len(ids_without) == len(captions) and not are_separate:
        facts["references"] = "none; name a file: --references"
    else:
        _count_references(captions.references.lengths.tolist(), findings)
        if ids_without:
            findings.problems.append(
                f"candidates without references: {len(ids_without):,} of {len(captions):,} ({list_names(ids_without)})"
            )
    findings.warn("images with references but no candidate", notes["references_without_candidate"])
    findings.warn("images whose names match ambiguously", notes["ambiguous_names"], ": use the same ids in both files")
    if notes["matched_by"]:
        facts["images matched by"] = notes["matched_by"][0]
    facts["distinct candidates"] = len(text_counts)
    blank_ids = find_ids(captions, is_blank)
    facts["empty candidates"] = len(blank_ids)
    findings.warn("empty candidates, which get the lowest score", blank_ids)
    findings.warn(
        "candidates that repeat an earlier one of the same image, as padded data loaders produce",
        notes["repeated_candidates"],
    )
    _check_endings(captions, findings)
    unsegmented_ids = find_ids(captions, is_unsegmented)
    if 2 * len(unsegmented_ids) > len(captions):
        findings.warn(
            "candidates without spaces between words, as in Chinese, Japanese or Thai",
            unsegmented_ids,
            "; choose a tokenizer, such as -m 'bleu-4(tokenizer=char)' (docs/languages.md)",
        )
    repeated_text, repeat_count = text_counts.most_common(1)[0]
    if len(captions) >= 20 and repeat_count > len(captions) / 5:
        repeated = shorten(repeated_text, 60)
        findings.warnings.append(f"{repeat_count:,} of {len(captions):,} candidates are the same: {repeated}")
    _check_texts(captions.ids, texts, "candidates", findings)
    for reason, caption_ids in check_captions(captions).items():
        if reason != COPIED or 50 * len(caption_ids) > len(captions):  # a system and a person may write the same
            findings.warn(reason, caption_ids)
    if len(ids_without) < len(captions):
        _compare_words(captions, findings)


def _check_endings(captions: CaptionSet, findings: Findings) -> None:
    """Counts the candidates that end in a function word: by system, where there are several."""
    endings: dict[str, list[tuple[str, str]]] = {system or "": [] for system in captions.systems}
    for id in find_ids(captions, is_truncated):
        caption = captions[id]
        endings[caption.system or ""].append((id, " ".join(caption.candidate.split()[-4:])))
    counts = {system: len(of_system) for system, of_system in endings.items()}
    findings.facts["candidates that end in a function word"] = counts if len(counts) > 1 else sum(counts.values())
    totals = Counter(system or "" for system in captions.systems)
    for system, of_system in endings.items():
        if len(of_system) > _MAX_TRUNCATED * totals[system]:
            examples = list_names((f'{id} "… {ending}"' for id, ending in of_system), 3, 100)
            findings.warnings.append(
                f"candidates{f' of {system}' * (len(counts) > 1)} that end in a function word, as truncated captions "
                f"do: {len(of_system):,} of {totals[system]:,} ({examples})"
            )


def _count_references(lengths: Sequence[int], findings: Findings) -> None:
    findings.facts["references"] = sum(lengths)
    findings.facts["references per caption"] = {"min": min(lengths), "median": median(lengths), "max": max(lengths)}


def _check_texts(ids: Sequence[str], texts: Sequence[str], side: Side, findings: Findings) -> None:
    too_long = [id for id, text in zip(ids, texts, strict=True) if len(text) > _LONG]
    by_problem = {f"texts longer than {_LONG:,} characters": too_long} if too_long else {}
    for problem, problem_ids in (by_problem | check_texts(ids, texts)).items():
        listed_ids = list_names(dict.fromkeys(problem_ids))
        findings.warnings.append(f"{problem}: in {len(problem_ids):,} of the {side} ({listed_ids})")


def _compare_words(captions: CaptionSet, findings: Findings) -> None:
    """Lengths, and the share of a candidate's words that occur in its own references and in another image's."""
    fit, facts = ReferenceFit.measure(captions), findings.facts
    facts["words per candidate"] = round(fit.candidate_words, 2)
    facts["words per reference"] = round(fit.reference_words, 2)
    if fit.reference_words:
        facts["length ratio"] = round(fit.candidate_words / fit.reference_words, 3)
    if abs(fit.candidate_words - fit.reference_words) >= _LONGER:
        longer = "longer" if fit.candidate_words > fit.reference_words else "shorter"
        findings.warnings.append(
            f"candidates are {abs(fit.candidate_words - fit.reference_words):.0f} words {longer} than references on "
            f"average: {_LONGER} words cost 93 % of CIDEr-D; meteor, spice or a metric on embeddings compare such texts"
        )
    if fit.vocabulary_share is None:
        return
    facts["candidate words that occur in references"] = round(fit.vocabulary_share, 3)
    facts["words found in own references"] = round(fit.own_share, 3)
    if fit.other_share is not None:
        facts["words found in another image's references"] = round(fit.other_share, 3)
    if mismatch := fit.describe_mismatch():
        findings.warnings.append(mismatch)
    elif fit.is_doubtful:
        findings.warnings.append(
            f"candidates share hardly more words with their own references ({fit.own_share:.0%}) than with those of "
            f"other images ({fit.other_share:.0%}): do the references belong to these images?"
        )
