"""Texts without images: WMT16 translations into English, and CoNLL-2014's corrected sentences.

* WMT16 segments (Bojar et al. 2016): 560 translations from each of six languages, with a direct-assessment score.
  LCEval reports Kendall's τ for each language and the mean; the shared task reports Pearson's r.
* CoNLL-2014 systems (Ng et al. 2014): twelve corrections of 1,312 sentences and the input itself, ranked by people
  (Grundkiewicz et al. 2015, expected wins). The expected wins are in the table below; a file of sentences has the
  captions, so that metrics' corpus scores are compared with them.
"""

from __future__ import annotations

from capmeter.captions.caption_set import Caption
from capmeter.core.errors import InputError
from capmeter.judgments.benchmark import Benchmark, build_rated
from capmeter.judgments.prepared import JudgedSystem, Points, PreparedJudgments, SourceSentence, prepare_systems
from capmeter.judgments.protocol import LeaveOut, Protocol, Statistic
from capmeter.judgments.rows import JudgmentRow

# Grundkiewicz, Junczys-Dowmunt and Gillian 2015, table 3: expected wins
EXPECTED_WINS = {
    "AMU": 0.62837,
    "RAC": 0.566014,
    "CAMB": 0.560664,
    "CUUI": 0.549703,
    "POST": 0.538986,
    "UFC": 0.513497,
    "PKU": 0.506412,
    "UMC": 0.494529,
    "IITB": 0.485077,
    "SJTU": 0.463416,
    "INPUT": 0.456373,
    "NTHU": 0.437097,
    "IPN": 0.299862,
}


def _segments(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> Points:
    named_rows = []
    for row in rows:
        segment_id = f"{row.text('lang_pair')}-{int(row.number('segment'))}"
        named_rows.append(JudgmentRow({"image_id": segment_id, **row.fields}, row.place))
    return build_rated(benchmark_name, named_rows, protocol)


def _corrections(name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
    if "systems" not in rows[0]:
        return _ranked_alone(name, rows, protocol)
    if protocol.judgments not in ("expected_wins", "human"):
        raise InputError(f"{name} has judgments=expected_wins, but the protocol asks for {protocol.judgments}")
    captions: dict[str, list[Caption]] = {}
    source_sentences: dict[str, SourceSentence] = {}
    for row in rows:
        sentence_id, system_outputs = int(row.number("sent_id")), row.fields["systems"]
        if not isinstance(system_outputs, dict) or set(system_outputs) != set(EXPECTED_WINS):
            raise row.error_at("systems", f"the sentences of {', '.join(EXPECTED_WINS)}")
        references = row.texts("references")
        if "source" in row:
            source_sentences[str(sentence_id)] = SourceSentence(row.text("source"), _every_reference(row, references))
        for system, text in system_outputs.items():
            id = f"{system}/{sentence_id}"
            captions.setdefault(system, []).append(Caption(id, str(sentence_id), text, references, system=system))
    ranked_systems = [
        JudgedSystem(system, EXPECTED_WINS[system], tuple(system_captions), baseline=system == "INPUT")
        for system, system_captions in captions.items()
    ]
    return prepare_systems(name, ranked_systems, protocol, source_sentences)


def _every_reference(row: JudgmentRow, references: tuple[str, ...]) -> tuple[str, ...]:
    """The references of all annotators (`reference_sets`: annotator → sentence), where the row has more of them."""
    by_annotator = row.fields.get("reference_sets", {})
    if not isinstance(by_annotator, dict) or not all(isinstance(text, str) for text in by_annotator.values()):
        raise row.error_at("reference_sets", "an object: annotator → sentence")
    return tuple(by_annotator.values()) or references


def _ranked_alone(benchmark_name: str, rows: list[JudgmentRow], protocol: Protocol) -> PreparedJudgments:
    ranked_systems = []
    for row in rows:
        scores = {key.removeprefix("published_"): row.number(key) for key in row.fields if key.startswith("published_")}
        system = row.text("system")
        ranked_systems.append(JudgedSystem(system, row.number("expected_wins"), (), scores, baseline=system == "INPUT"))
    return prepare_systems(benchmark_name, ranked_systems, protocol)


WMT16 = Benchmark(
    name="wmt16",
    title="WMT16 segments: 3,360 translations into English from six languages",
    source="Bojar et al. 2016, DAseg-wmt-newstest2016; as in Ma et al. 2017, blend: sample/data/data/da-wmt16",
    rows=3360,
    keys=("candidate", "references", "human", "lang_pair", "segment"),
    build=_segments,
    protocols={
        "lceval": Protocol(name="lceval", ratings="mean", statistic="tau-b", by="lang_pair", expect=3360),
        "wmt2016": Protocol(name="wmt2016", ratings="mean", statistic="pearson", by="lang_pair", expect=3360),
    },
)

_CONLL14_PRESETS: tuple[tuple[str, Statistic, tuple[LeaveOut, ...]], ...] = (
    ("napoles2016", "spearman", ()),
    ("napoles2016-pearson", "pearson", ()),
    ("without-input", "spearman", ("baselines",)),
)
CONLL14 = Benchmark(
    name="conll14",
    title="CoNLL-2014 systems: twelve corrections of 1,312 sentences, ranked by people",
    source="Ng et al. 2014; Grundkiewicz et al. 2015, grammatical/evaluation: expected wins",
    rows=None,
    keys=(),
    fits=lambda row: "systems" in row or "expected_wins" in row,
    looks="systems (their sentences), or system and expected_wins",
    build=_corrections,
    # SMURF's text says 12 submissions, but its ρ of .852 and .648 exist for 13 alone: ρ = 1 - 6 Σd² / (n³ - n) with
    # Σd² of 54 and 128, and no whole number gives them with 12; so the unchanged input is included
    protocols={
        name: Protocol(
            name=name, judgments="expected_wins", leave_out=left_out, statistic=statistic, expect=13 - len(left_out)
        )
        for name, statistic, left_out in _CONLL14_PRESETS
    },
)
