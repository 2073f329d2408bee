"""Rows of a benchmark as judgments under a protocol: one function for each kind of benchmark, which its file names.

`ratings` and `pairs` take any benchmark of that kind; the others belong to one each:

* `fense` (AudioCaps-Eval, Clotho-Eval; Zhou et al. 2022): pairs of captions of a clip with four votes each. A candidate
  that is a reference is taken out of its references, and those that remain are filled up to four from the start; the
  first caption of HI and HM, the person's, is taken out for both captions. In MM the score is the mean over the
  references without each one. The first and the second captions are each a corpus, which document frequencies come
  from; those of MM are two more.
* `flagged_words` (HAT): rated captions and their hallucinated words. `foils` (nocaps-FOIL): pairs, or for average
  precision and localisation both captions of each, the foil with the words that were put in. `facts` (FaithScore):
  answers, wrong if one of their facts is, or the facts themselves. Localisation keeps captions with flagged words.
* `swapped` (reference-swap): each reference of an image against one of another image, in any language; the other
  references of the image must tell them apart, and there is no judge. The other image is the next one of a seeded order
  (`random`), or the nearest by its references' words (`similar`), weighted by ln(N / images with the word). Of a file
  with captions in several languages (`language`) each language is paired with itself, and the nearest image is that of
  the English references, so that all languages have the same pairs.
* `teams` (COCO challenge): systems with the automatic scores of the judged submissions, whose captions are not public.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError, ProtocolError
from capmeter.judgments.layouts import JudgmentRow, row_ids
from capmeter.judgments.prepared import (
    JudgedPairs,
    JudgedSystem,
    Points,
    PreparedJudgments,
    RatedCaption,
    RatedPair,
    Systems,
    prepare_pairs,
    prepare_points,
    prepare_systems,
)
from capmeter.judgments.protocol import Protocol
from capmeter.text.tokenization.token_tables import keep_letters_and_digits

_FENSE_REFERENCES = 4
_BLOCK = 512  # images whose similarities to all others are in memory

COCO_COLUMNS = {
    "Bleu_1": "bleu-1",
    "Bleu_2": "bleu-2",
    "Bleu_3": "bleu-3",
    "Bleu_4": "bleu-4",
    "METEOR": "meteor",
    "ROUGE_L": "rouge-l",
    "CIDEr": "cider-d",
    "SPICE": "spice",
}
COCO_BASELINES = ("Human", "Random")


@dataclass(frozen=True, kw_only=True)
class JudgmentFields:
    """Where pairs of a benchmark have their judgments.

    fields: of a protocol's `judgments` the fields of the rows, of which the first that a row has is read.
    votes: the field of raw votes, which the label may differ from.
    corpus: the field whose values are corpora with document frequencies of their own.
    drop_candidates: references that are one of both candidates are left out.
    """

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    votes: str = ""
    corpus: str = ""
    drop_candidates: bool = False

    def preference(self, row: JudgmentRow, judgments: str) -> tuple[float, tuple[float, ...], bool]:
        """How much better the first caption is, the raw votes, and whether the preference is their majority."""
        names = self.fields.get(judgments, (judgments,))
        name = next((each for each in names if each in row), names[0])
        better, by_votes = row.preference(name), isinstance(row.value(name), list)
        votes_name = name if by_votes else self.votes
        votes = row.numbers(votes_name) if isinstance(row.value(votes_name), list) else ()
        return better, votes, by_votes


def _build_ratings(name: str, rows: list[JudgmentRow], protocol: Protocol, _: JudgmentFields) -> Points:
    """Points from rows of one rated caption each."""
    return prepare_points(
        name,
        [
            _rate(id, row, row.text("candidate"), row.numbers(protocol.judgments))
            for id, row in zip(row_ids(rows), rows, strict=True)
        ],
        protocol,
    )


def _rate(
    id: str, row: JudgmentRow, text: str, ratings: tuple[float, ...], flagged: Sequence[str] = ()
) -> RatedCaption:
    references = row.texts("references") if "references" in row else ()
    return RatedCaption(
        id,
        row.text("image_id"),
        text,
        references,
        ratings,
        own=row.flag("candidate_in_references", text in references),
        by_person=row.fields.get("candidate_index") == 0 or str(row.fields.get("system")).lower() == "human",
        groups=row.groups(),
        image=row.text("image") if "image" in row else None,
        flagged=tuple(flagged),
    )


def _build_pairs(name: str, rows: list[JudgmentRow], protocol: Protocol, judgments: JudgmentFields) -> JudgedPairs:
    """Pairs of rows with `candidate_a` and `candidate_b`."""
    pairs, ids = [], row_ids(rows)
    for pair_id, row in zip(ids, rows, strict=True):
        a, b = row.text("candidate_a"), row.text("candidate_b")
        references = row.texts("references") if "references" in row else ()
        better, votes, by_votes = judgments.preference(row, protocol.judgments)
        system_names = (row.text("system_a"), row.text("system_b")) if "system_a" in row else None
        pairs.append(
            RatedPair(
                id=pair_id,
                image_id=row.text("image_id"),
                candidates=(a, b),
                references=tuple(each for each in references if not judgments.drop_candidates or each not in (a, b)),
                better=(better > 0) - (better < 0) if by_votes else better,
                valid=row.flag("valid", True),
                identical=row.flag("identical", a.lower() == b.lower()),
                groups=row.groups(),
                votes=votes,
                by_votes=by_votes,
                by_machine=row.fields.get("category") in ("HM", "MM"),
                image=row.text("image") if "image" in row else None,
                by_person=system_names is not None and "human" in map(str.lower, system_names),
                systems=system_names,
            )
        )
    prepared_pairs = prepare_pairs(name, pairs, protocol)
    if not judgments.corpus:
        return prepared_pairs
    corpus_of_row = {pair_id: row.text(judgments.corpus) for pair_id, row in zip(ids, rows, strict=True)}
    corpora = np.array([corpus_of_row[caption_id[:-2]] for caption_id in prepared_pairs.ids])
    return replace(prepared_pairs, corpora=tuple(np.flatnonzero(corpora == corpus) for corpus in np.unique(corpora)))


def list_fense_references(row: JudgmentRow, side: int) -> Iterator[tuple[str, ...]]:
    """The lists of references that FENSE scores one caption of a pair against."""
    references, candidates = row.texts("references"), (row.text("candidate_a"), row.text("candidate_b"))
    category = row.text("category")
    if category == "MM":
        for k in range(len(references)):
            yield references[:k] + references[k + 1 :]
        return
    candidate_text = candidates[side] if category == "HC" else candidates[0]
    other_references = tuple(text for text in references if text != candidate_text)
    yield (other_references + other_references)[:_FENSE_REFERENCES] if other_references else references


def _build_fense(name: str, rows: list[JudgmentRow], protocol: Protocol, judgments: JudgmentFields) -> JudgedPairs:
    """Pairs against FENSE's references, in the corpora of its captions."""
    pairs = _build_pairs(name, rows, protocol, judgments)
    # pairs with tied votes too: they are in the corpora
    caption_ids = [f"{row_id}/{side}" for row_id in row_ids(rows) for side in "ab"]
    caption_positions = {caption_id: k for k, caption_id in enumerate(caption_ids)}
    captions, caption_owners, caption_corpora = [], [], []
    for owner_index, caption_id in enumerate(caption_ids):
        row, side = rows[owner_index // 2], owner_index % 2
        candidate_text, is_machine = row.text("candidate_b" if side else "candidate_a"), row.text("category") == "MM"
        for k, references in enumerate(list_fense_references(row, side)):
            captions.append(Caption(f"{caption_id}/{k}", row.text("image_id"), candidate_text, references))
            caption_owners.append(owner_index)
            caption_corpora.append(2 * is_machine + side)
    corpora = np.array(caption_corpora)
    return replace(
        pairs,
        captions=CaptionSet.from_captions(captions),
        owners=np.array(caption_owners, np.int64),
        ids=tuple(caption_ids),
        first=np.array([caption_positions[pairs.ids[k]] for k in pairs.first]),
        second=np.array([caption_positions[pairs.ids[k]] for k in pairs.second]),
        corpora=tuple(np.flatnonzero(corpora == corpus) for corpus in np.unique(corpora)),
    )


def _build_flagged_words(name: str, rows: list[JudgmentRow], protocol: Protocol, _: JudgmentFields) -> Points:
    """Rated captions with their flagged words."""
    rated_captions = []
    for caption_id, row in zip(row_ids(rows), rows, strict=True):
        labelled_words = row.labelled_texts("words", '[["A", false], ["dog", true]]')
        flagged_words = [keep_letters_and_digits(word) for word, is_wrong in labelled_words if is_wrong]
        ratings = row.numbers("human")
        if len(ratings) != 1:
            raise row.error_at("human", "1 (nothing is hallucinated) or 0")
        rated_captions.append(_rate(caption_id, row, row.text("candidate"), ratings, flagged_words))
    return prepare_points(name, _select_scored(rated_captions, protocol), protocol)


def _build_foils(
    name: str, rows: list[JudgmentRow], protocol: Protocol, judgments: JudgmentFields
) -> PreparedJudgments:
    """Pairs for accuracy; else both captions of each, the foil with the words that were put in."""
    if protocol.statistic == "accuracy":
        return _build_pairs(name, rows, protocol, judgments)
    rated_captions = []
    for id, row in zip(row_ids(rows), rows, strict=True):
        side_texts = {side: row.text(f"candidate_{side}") for side in "ab"}
        winner, replacement = row.preference("correct"), row.texts("replacement")
        if not winner:
            raise row.error_at("correct", "a or b: one of the two is the foil")
        if len(replacement) != 2:
            raise row.error_at("replacement", 'the noun and its replacement, such as ["dog", "cat"]')
        right = "a" if winner > 0 else "b"
        right_words = set(map(keep_letters_and_digits, side_texts[right].split()))
        for side, text in side_texts.items():
            new = tuple(word for word in map(keep_letters_and_digits, text.split()) if word not in right_words)
            new = new or tuple(map(keep_letters_and_digits, replacement[1].split()))
            rated_captions.append(
                _rate(f"{id}/{side}", row, text, (float(side == right),), () if side == right else new)
            )
    return prepare_points(name, _select_scored(rated_captions, protocol), protocol)


def _select_scored(captions: Sequence[RatedCaption], protocol: Protocol) -> list[RatedCaption]:
    """The captions; for localisation those with flagged words."""
    return [each for each in captions if each.flagged or protocol.statistic != "localisation"]


def _build_facts(name: str, rows: list[JudgmentRow], protocol: Protocol, _: JudgmentFields) -> Points:
    """Answers, or the facts that they state."""
    if protocol.judgments not in ("answers", "facts"):
        raise ProtocolError(f"{name}: judgments={protocol.judgments}, expected answers or facts")
    rated_captions = []
    for answer_id, row in zip(row_ids(rows), rows, strict=True):
        facts = row.labelled_texts("facts", '[["There is a dog.", true]]')
        if protocol.judgments == "facts":
            rated_captions += [_rate(f"{answer_id}/{k}", row, text, (float(ok),)) for k, (text, ok) in enumerate(facts)]
        else:  # an answer without facts is neither right nor wrong: it has no rating, which is noted
            ratings = (float(all(ok for _, ok in facts)),) if facts else ()
            rated_captions.append(_rate(answer_id, row, row.text("answer"), ratings))
    return prepare_points(name, rated_captions, protocol)


def _build_swapped(name: str, rows: list[JudgmentRow], protocol: Protocol, _: JudgmentFields) -> JudgedPairs:
    """Each reference of an image, and one of another image, against the other references of the image."""
    if protocol.judgments not in ("random", "similar"):
        raise ProtocolError(f"{name}: judgments={protocol.judgments}, expected random or similar (images)")
    rows = [row for row in rows if len(row.texts("references")) > 1]  # prepare_pairs reports an empty benchmark
    others = find_other_images(rows, protocol.judgments, protocol.seed)
    pairs = []
    for pair_id, row, other in zip(row_ids(rows), rows, others, strict=True):
        references, groups = row.texts("references"), row.groups()
        for k, (own, of_other) in enumerate(zip(references, other.texts("references"), strict=False)):
            pairs.append(
                RatedPair(
                    id=f"{pair_id}/{k}",
                    image_id=row.text("image_id"),
                    candidates=(own, of_other),
                    references=references[:k] + references[k + 1 :],
                    better=1,
                    identical=of_other in references,
                    groups=groups,
                )
            )
    return prepare_pairs(name, pairs, protocol)


def find_other_images(rows: Sequence[JudgmentRow], kind: str, seed: int) -> list[JudgmentRow]:
    """For each row that of another image whose caption it is paired with.

    Args:
        rows: with `image_id` and `references`, and `language` where there are several.
        kind: random or similar.
        seed: of the order of images.

    Raises:
        InputError: a language has one image alone.
    """
    by_language: dict[str, dict[str, JudgmentRow]] = defaultdict(dict)
    languages = [row.text("language") if "language" in row else "" for row in rows]
    for language, row in zip(languages, rows, strict=True):
        by_language[language].setdefault(row.text("image_id"), row)
    english = {image: row.texts("references") for image, row in by_language.get("en", {}).items()}
    others: list[JudgmentRow] = []
    partner_of: dict[str, Mapping[str, str]] = {}
    for language, row in zip(languages, rows, strict=True):
        of_image = by_language[language]
        if len(of_image) < 2:
            raise row.error_at("image_id", "at least two images of each language")
        if language not in partner_of:
            references = {image: english.get(image, each.texts("references")) for image, each in of_image.items()}
            partner_of[language] = _nearest(references) if kind == "similar" else _next_of(sorted(of_image), seed)
        others.append(of_image[partner_of[language][row.text("image_id")]])
    return others


def _next_of(images: Sequence[str], seed: int) -> dict[str, str]:
    order = np.random.default_rng(seed).permutation(len(images))
    return {images[a]: images[b] for a, b in zip(order, np.roll(order, 1), strict=True)}


def _nearest(references: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The image whose references have the highest cosine of tf-idf weighted words with each image's own."""
    from scipy.sparse import csr_array

    images = list(references)
    words: dict[str, int] = {}
    entries = [
        (row, words.setdefault(word, len(words)))
        for row, image in enumerate(images)
        for text in references[image]
        for word in text.lower().split()
    ]
    if not entries:
        raise InputError("the references have no words by which similar images could be found")
    row_indices, columns = np.array(entries).T
    counts = csr_array((np.ones(len(entries)), (row_indices, columns)), shape=(len(images), len(words)))
    counts.sum_duplicates()
    idf = np.log(len(images) / np.bincount(counts.indices, minlength=len(words)))
    weighted = counts.multiply(idf[None, :]).tocsr()
    norms: npt.NDArray[np.float64] = np.sqrt(weighted.multiply(weighted).sum(axis=1))
    unit = weighted.multiply(1 / np.maximum(norms, 1e-12)[:, None]).tocsr()
    nearest: dict[str, str] = {}
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK]
        cosines = (unit[start : start + _BLOCK] @ unit.T).toarray()
        cosines[np.arange(len(block)), np.arange(start, start + len(block))] = -1.0  # not the image itself
        nearest |= {image: images[k] for image, k in zip(block, cosines.argmax(axis=1).tolist(), strict=True)}
    return nearest


def _build_teams(name: str, rows: list[JudgmentRow], protocol: Protocol, _: JudgmentFields) -> Systems:
    """Teams with the automatic scores of the judged submission, not of a later one (`cider-d@c40`)."""
    teams = []
    for row in rows:
        scores: dict[str, float] = {}
        for table_name in ("c5", "c40"):
            entries: Any = row.fields.get(table_name)
            if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
                raise row.error_at(table_name, "a list of automatic scores")
            for entry in entries:
                if entry.get("same_submission_date"):
                    scores |= {
                        f"{metric}@{table_name}": float(entry[column]) for column, metric in COCO_COLUMNS.items()
                    }
        team = row.text("team")
        teams.append(JudgedSystem(team, row.number(protocol.judgments), scores, baseline=team in COCO_BASELINES))
    return prepare_systems(name, teams, protocol)


Builder = Callable[[str, list[JudgmentRow], Protocol, JudgmentFields], PreparedJudgments]
BUILDERS: Mapping[str, Builder] = {
    "ratings": _build_ratings,
    "pairs": _build_pairs,
    "fense": _build_fense,
    "flagged_words": _build_flagged_words,
    "foils": _build_foils,
    "facts": _build_facts,
    "swapped": _build_swapped,
    "teams": _build_teams,
}
