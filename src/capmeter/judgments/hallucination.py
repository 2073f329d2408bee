"""Benchmarks of hallucination: captions, words and facts that are right or not.

* HAT (Petryk et al. 2024, ALOHa): 400 machine captions of COCO photos; `human` is 1 (nothing hallucinated) or 0, and
  `words` says of each word whether it is.
* nocaps-FOIL (Petryk et al. 2024): 2,500 captions of nocaps, and the same with one noun replaced, in three domains.
* D-FOIL (Lin et al. 2025, DiscoSG): 200 long captions with a hallucination, and a person's correction.
* HaELM (Wang et al. 2023): 300 captions of vision-language models, accurate or not.
* FaithScore (Jing et al. 2023): 180 answers, and the facts that they state; without references.

Average precision (`statistic=average-precision`) is that of finding the captions with hallucinations. Localisation
(`statistic=localisation`) is the share of these in which the word that the metric blames most is one of the flagged
ones; of k words that are blamed equally, each counts 1/k.
"""

from __future__ import annotations

from collections.abc import Sequence

from capmeter.core.errors import ProtocolError
from capmeter.judgments.benchmark import Benchmark, build_pairs, build_rated, read_winner
from capmeter.judgments.prepared import PreparedJudgments, RatedCaption, letters_and_digits, prepare_points
from capmeter.judgments.protocol import Protocol, Statistic
from capmeter.judgments.rows import JudgmentRow, row_ids

_AP: Statistic = "average-precision"
_LOCALISATION: Statistic = "localisation"
_PAIR = ("image_id", "candidate_a", "candidate_b", "references", "correct")
_build_pairs = build_pairs(lambda row, protocol: read_winner(row, "correct"))


def _build_hat(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
    """Rated captions with their flagged words."""
    rated_captions = []
    for caption_id, row in zip(row_ids(rows), rows, strict=True):
        labelled_words = _labelled_texts(row, "words", '[["A", false], ["dog", true]]')
        flagged_words = tuple(letters_and_digits(word) for word, is_wrong in labelled_words if is_wrong)
        ratings = row.numbers("human")
        if len(ratings) != 1:
            raise row.error_at("human", "1 (nothing is hallucinated) or 0")
        rated_captions.append(_rated(caption_id, row, row.text("candidate"), ratings, flagged_words))
    return prepare_points(benchmark_name, _scored(rated_captions, protocol), protocol)


def _build_foil(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
    """Pairs, or for average precision both captions of each, the foil with the words that were put in."""
    if protocol.statistic == "accuracy":
        return _build_pairs(benchmark_name, rows, protocol)
    rated_captions = []
    for id, row in zip(row_ids(rows), rows, strict=True):
        side_texts = {side: row.text(f"candidate_{side}") for side in "ab"}
        winner, replacement = read_winner(row, "correct"), row.texts("replacement")
        if not winner:
            raise row.error_at("correct", "a or b: one of the two is the foil")
        if len(replacement) != 2:
            raise row.error_at("replacement", 'the noun and its replacement, such as ["dog", "cat"]')
        right = "a" if winner > 0 else "b"
        right_words = set(map(letters_and_digits, side_texts[right].split()))
        for side, text in side_texts.items():
            new = tuple(word for word in map(letters_and_digits, text.split()) if word not in right_words)
            new = new or tuple(map(letters_and_digits, replacement[1].split()))
            rated_captions.append(
                _rated(f"{id}/{side}", row, text, (float(side == right),), () if side == right else new)
            )
    return prepare_points(benchmark_name, _scored(rated_captions, protocol), protocol)


def _scored(captions: Sequence[RatedCaption], protocol: Protocol) -> list[RatedCaption]:
    """The captions; for localisation those with flagged words."""
    return [each for each in captions if each.flagged or protocol.statistic != _LOCALISATION]


def _build_facts(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
    """Answers, wrong if one of their facts is; or the facts themselves."""
    if protocol.judgments not in ("answers", "facts"):
        raise ProtocolError(f"{benchmark_name}: judgments={protocol.judgments}, expected answers or facts")
    rated_captions = []
    for answer_id, row in zip(row_ids(rows), rows, strict=True):
        facts = _labelled_texts(row, "facts", '[["There is a dog.", true]]')
        if protocol.judgments == "facts":
            rated_captions += [
                _rated(f"{answer_id}/{k}", row, text, (float(ok),)) for k, (text, ok) in enumerate(facts)
            ]
        else:  # an answer without facts is neither right nor wrong: it has no rating, which is noted
            ratings = (float(all(ok for _, ok in facts)),) if facts else ()
            rated_captions.append(_rated(answer_id, row, row.text("answer"), ratings))
    return prepare_points(benchmark_name, rated_captions, protocol)


def _labelled_texts(row: JudgmentRow, field_name: str, example: str) -> list[tuple[str, bool]]:
    """A field that must be a list of texts, each with true or false."""
    field_value = row.fields.get(field_name)
    if not isinstance(field_value, list):
        raise row.error_at(field_name, f"a list such as {example}")
    for labelled_text in field_value:
        match labelled_text:
            case [str(), bool()]:
                continue
        raise row.error_at(field_name, f"a list such as {example}, but {labelled_text!r:.60} is in it")
    return [(text, label) for text, label in field_value]


def _rated(
    id: str, row: JudgmentRow, text: str, ratings: tuple[float, ...], flagged: Sequence[str] = ()
) -> RatedCaption:
    references = row.texts("references") if "references" in row else ()
    groups = {field_name: str(value) for field_name, value in row.fields.items() if isinstance(value, str | int)}
    return RatedCaption(id, row.text("image_id"), text, references, ratings, groups=groups, flagged=tuple(flagged))


HAT = Benchmark(
    name="hat",
    title="HAT: 400 machine captions of COCO photos, each word hallucinated or not",
    source="Petryk et al. 2024, ALOHa: data/hat-trainval.json",
    rows=400,
    keys=("image_id", "candidate", "references", "human", "words"),
    build=_build_hat,
    protocols={
        "ap": Protocol(name="ap", statistic=_AP, expect=400),
        "localisation": Protocol(name="localisation", statistic=_LOCALISATION, expect=135),
    },
)

NOCAPS_FOIL = Benchmark(
    name="nocaps-foil",
    title="nocaps-FOIL: 2,500 captions and their foils in three domains",
    source="Petryk et al. 2024, ALOHa: data/nocaps-val-foil.json",
    rows=2500,
    keys=(*_PAIR, "category", "replacement"),
    build=_build_foil,
    protocols={
        "ap": Protocol(name="ap", statistic=_AP, expect=5000),
        "domains": Protocol(name="domains", statistic=_AP, by="category", expect=5000),
        "localisation": Protocol(name="localisation", statistic=_LOCALISATION, expect=2500),
        "pairs": Protocol(name="pairs", statistic="accuracy", expect=2500),
    },
)

D_FOIL = Benchmark(
    name="d-foil",
    title="D-FOIL: 200 long captions with a hallucination, and a person's corrections",
    source="Lin et al. 2025, DiscoSG: DiscoSG_datasets/DiscourseFOIL-200.json",
    rows=200,
    keys=(*_PAIR, "hallucination", "phrases"),
    build=_build_pairs,
    protocols={"pairs": Protocol(name="pairs", statistic="accuracy", expect=200)},
)

HAELM = Benchmark(
    name="haelm",
    title="HaELM: 300 captions of vision-language models, accurate or not",
    source="Wang et al. 2023, HaELM: data/eval_data.jsonl",
    rows=300,
    keys=("image_id", "candidate", "references", "human", "system"),
    fits=lambda row: str(row.fields.get("id", "")).startswith("haelm"),
    looks="the rows of HaELM, whose ids begin with haelm",
    build=build_rated,
    protocols={"ap": Protocol(name="ap", statistic=_AP, expect=300)},
)

FAITHSCORE = Benchmark(
    name="faithscore",
    title="FaithScore: 180 answers and their 1,380 facts, correct or not; without references",
    source="Jing et al. 2023, FaithScore: annotation.jsonl",
    rows=180,
    keys=("image_id", "answer", "subsentences", "facts"),
    build=_build_facts,
    protocols={
        "answers": Protocol(name="answers", judgments="answers", statistic=_AP),
        "facts": Protocol(name="facts", judgments="facts", statistic=_AP, expect=1380),
    },
)
