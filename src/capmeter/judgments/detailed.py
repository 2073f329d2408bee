"""Benchmarks of detailed captions, from the files that their authors distribute, and any arena of battles.

* arena: any file of battles, {image_id, system_a, system_b, candidate_a, candidate_b, references, correct}, where
  `correct` is a, b or tie.
* CapArena (Cheng et al. 2025): 6,522 battles between captions of fourteen models and of people on DOCCI's images.
* DOCENT (Ananthram et al. 2026, PoSh): pairs of descriptions of artworks, five degrees of preference in mistakes,
  omissions and overall quality.
* LongCap-Arena (Matsuda et al. 2025, VELA): long captions rated for descriptiveness, relevance or
  fluency, one file each.
* DetailCaps-4870 (Dong et al. 2024, CAPTURE): captions of three models, rated by GPT-4, three references each.

Layouts besides JSON lines:
* CapArena's caparena_annots_eval.json: a list of {img, source1, source2, caption1, caption2, ref, winner, cluster};
  `winner` is a source, or equal, skip or bad, which count as ties as in the authors' code;
* DOCENT's docent-eval-coarse as Parquet, JSON or JSON lines: {uuid, reference, model1, model2, model1_generation,
  model2_generation, mistakes, omissions, overall_quality};
* LongCap-Arena's CSV {imgid, cand, refs, score} (desc_dci_val.csv …) or Parquet {file_name, cand, refs, score};
* DetailCaps-4870.parquet: {image, GT_Caption_GPT4O, GT_Caption_GPT4V, GT_Caption_Gemini15Pro, GPT4_Eval} and a column
  of captions per model, CogVLM, ShareCaptioner and LLaVA_v15; GPT4_Eval is JSON, model → rating.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capmeter.captions.rows import is_finite
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_pairs, build_rated, read_winner
from capmeter.judgments.pairs import SIDES
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.records import has_fields, read_records
from capmeter.judgments.rows import JudgmentRow

_BATTLE = (*SIDES, "system_a", "system_b", "correct")
_CAPARENA = ("img", "source1", "source2", "caption1", "caption2", "ref", "winner", "cluster")
_DOCENT_TEXTS = ("reference", "model1", "model2", "model1_generation", "model2_generation")
_DIMENSIONS = ("mistakes", "omissions", "overall_quality")
_DEGREES = {"1_much_better": 2, "1_slightly_better": 1, "equal": 0, "2_slightly_better": -1, "2_much_better": -2}
_DETAILCAPS_REFERENCES = ("GT_Caption_GPT4O", "GT_Caption_GPT4V", "GT_Caption_Gemini15Pro")
_DETAILCAPS_MODELS = ("CogVLM", "ShareCaptioner", "LLaVA_v15")


def _reader(
    what: str,
    recognised: Sequence[str],
    other: Sequence[str],
    convert: Callable[[JudgmentRow], Iterable[Mapping[str, Any]]],
) -> LayoutReader:
    """A layout that is recognised by the fields of its first record; each record becomes rows in the native form."""

    def read(path: Path) -> list[JudgmentRow]:
        records = read_records(path, (*recognised, *other))
        return [JudgmentRow(row_fields, row.place) for row in records for row_fields in convert(row)]

    return LayoutReader(what=what, accepts=lambda path: has_fields(path, recognised), read=read)


def _caparena(row: JudgmentRow) -> list[dict[str, Any]]:
    first_system, second_system, winner = row.text("source1"), row.text("source2"), row.text("winner")
    side_of_winner = {first_system: "a", second_system: "b", "equal": "tie", "skip": "tie", "bad": "tie"}
    if winner not in side_of_winner:
        raise row.error_at("winner", f"{first_system}, {second_system}, equal, skip or bad")
    row_fields = {
        "image_id": row.text("img"),
        "system_a": first_system,
        "system_b": second_system,
        "candidate_a": row.text("caption1"),
        "candidate_b": row.text("caption2"),
        "references": [row.text("ref")],
        "correct": side_of_winner[winner],
    }
    return [row_fields | ({"cluster": row.text("cluster")} if "cluster" in row else {})]


def _docent(row: JudgmentRow) -> list[dict[str, Any]]:
    reference, first_system, second_system, first_text, second_text = map(row.text, _DOCENT_TEXTS)
    row_fields: dict[str, Any] = {
        "image_id": row.text("uuid"),
        "system_a": first_system,
        "system_b": second_system,
        "candidate_a": first_text,
        "candidate_b": second_text,
        "references": [reference],
    }
    for dimension in _DIMENSIONS:
        if row.text(dimension) not in _DEGREES:
            raise row.error_at(dimension, f"one of {', '.join(_DEGREES)}")
        row_fields[dimension] = _DEGREES[row.text(dimension)]
    return [row_fields]


def _longcap(row: JudgmentRow) -> list[dict[str, Any]]:
    references, raw_score = row.fields.get("refs"), row.fields.get("score")
    if isinstance(references, str):
        try:
            references = ast.literal_eval(references)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise row.error_at("refs", "a list of texts") from None
    if not isinstance(references, list) or not all(isinstance(reference_text, str) for reference_text in references):
        raise row.error_at("refs", "a list of texts")
    try:
        rating = float(raw_score)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise row.error_at("score", "a number") from None
    if not is_finite(rating):
        raise row.error_at("score", "a number")
    image_id = row.text("imgid" if "imgid" in row else "file_name")
    return [{"image_id": image_id, "candidate": row.text("cand"), "references": references, "human": [rating]}]


def _detailcaps(row: JudgmentRow) -> list[dict[str, Any]]:
    image_id, rating_text = row.text("image"), row.fields.get("GPT4_Eval")
    references = [row.text(field_name) for field_name in _DETAILCAPS_REFERENCES]
    # the authors leave out images without ratings; here they are counted as captions without ratings
    model_ratings = {} if rating_text is None else decode_json(row.text("GPT4_Eval"), f"{row.place}, GPT4_Eval")
    if not isinstance(model_ratings, dict) or not all(is_finite(value) for value in model_ratings.values()):
        raise row.error_at("GPT4_Eval", "JSON, each model with its rating")
    return [
        {
            "image_id": image_id,
            "candidate": row.text(model_name),
            "references": references,
            "human": [float(model_ratings[model_name])] if model_name in model_ratings else [],
            "system": model_name,
        }
        for model_name in _DETAILCAPS_MODELS
    ]


def _preference(row: JudgmentRow, protocol: Protocol) -> float:
    if protocol.judgments not in _DIMENSIONS:
        raise InputError(f"judgments={protocol.judgments}: expected one of {', '.join(_DIMENSIONS)}")
    return row.number(protocol.judgments)


def _winner(row: JudgmentRow, protocol: Protocol) -> float:
    return read_winner(row, "correct")


ARENA = Benchmark(
    name="arena",
    title="Any arena: battles of two systems' captions, a, b or tie",
    source="your own",
    keys=_BATTLE,
    build=build_pairs(_winner),
    protocols={
        "battles": Protocol(name="battles", statistic="agreement"),
        "decided": Protocol(name="decided", statistic="accuracy"),
    },
)

CAPARENA = Benchmark(
    name="caparena",
    title="CapArena: 6,522 battles between models on DOCCI's images",
    source="Cheng et al. 2025, CapArena: caparena_annots_eval.json",
    keys=(*_BATTLE, "references"),
    build=build_pairs(_winner),
    readers=(_reader("CapArena's caparena_annots_eval.json", _CAPARENA[:-1], _CAPARENA[-1:], _caparena),),
    protocols={
        "caparena2025": Protocol(name="caparena2025", leave_out=("human-captions",), statistic="agreement"),
        "decided": Protocol(name="decided", leave_out=("human-captions",), statistic="accuracy"),
        "levels": Protocol(name="levels", leave_out=("human-captions",), statistic="agreement", by="cluster"),
    },
)

DOCENT = Benchmark(
    name="docent",
    title="DOCENT: pairs of descriptions of artworks, five degrees of preference in three dimensions",
    source="Ananthram et al. 2026, PoSh: amitha/docent-eval-coarse",
    keys=(*SIDES, "system_a", "system_b", "references", *_DIMENSIONS),
    build=build_pairs(_preference, graded=True),
    readers=(_reader("DOCENT's coarse judgments", ("uuid", *_DOCENT_TEXTS, *_DIMENSIONS), (), _docent),),
    protocols={
        name: Protocol(name=name, judgments=dimension, statistic="agreement" if agrees else "spearman")
        for agrees, prefix in ((True, ""), (False, "spearman-"))
        for dimension in ("overall_quality", "mistakes", "omissions")
        for name in (f"{prefix}{dimension.partition('_')[0]}",)
    },
)

LONGCAP_ARENA = Benchmark(
    name="longcap-arena",
    title="LongCap-Arena: long captions rated in one of three respects",
    source="Matsuda et al. 2025, VELA: Ka2ukiMatsuda/LongCap-Arena, desc_dci_val.csv …",
    build=build_rated,
    readers=(
        _reader("LongCap-Arena's CSV", ("imgid", "cand", "refs", "score"), (), _longcap),
        _reader("LongCap-Arena's Parquet", ("file_name", "cand", "refs", "score"), (), _longcap),
    ),
    protocols={"vela2025": Protocol(name="vela2025", ratings="mean", statistic="tau-c")},
)

DETAILCAPS = Benchmark(
    name="detailcaps",
    title="DetailCaps-4870: detailed captions of three models, rated by GPT-4",
    source="Dong et al. 2024, CAPTURE: DetailCaps-4870.parquet",
    build=build_rated,
    readers=(
        _reader(
            "DetailCaps-4870.parquet",
            ("image", *_DETAILCAPS_REFERENCES, *_DETAILCAPS_MODELS, "GPT4_Eval"),
            (),
            _detailcaps,
        ),
    ),
    protocols={
        "tau": Protocol(name="tau", ratings="mean", statistic="tau-b"),
        "pearson": Protocol(name="pearson", ratings="mean", statistic="pearson"),
        "sample-tau": Protocol(name="sample-tau", ratings="mean", statistic="tau-b", by="image_id"),
    },
)
