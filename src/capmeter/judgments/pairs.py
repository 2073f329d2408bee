"""Pairs with a known better caption: FOIL, reformulations, the forced-choice distractions, and any such file.

* FOIL (Shekhar et al. 2017): a caption, and the same with one noun replaced; a is right. `foil` is VALSE's selection,
  `foil-coco` a whole split.
* Reformulations (Berger et al. 2025): a machine caption, and a person's corrected version; b is better.
* Distractions (Hodosh and Hockenmaier 2016): replace, share or just person or scene. The set is not freely
  distributed; its pairs are read as rows {image_id, category, candidate_a, candidate_b, references, correct}.
* pairs: any file of such rows, with `correct` ("a", "b") or `human` (votes, 1 for a and -1 for b).

Layouts besides JSON lines:
* VALSE's foil-it.json (id → caption, foil, image_file, mturk), without references;
* of a whole split, the folder with foilv1.0_test_2017.json and COCO's captions_val2014.json: the references
  are the image's other captions (`first-1` and `first-4` in the protocols, as CLIPScore reports).
"""

from __future__ import annotations

from pathlib import Path

from capmeter.captions.sources import read_text
from capmeter.core.errors import InputError
from capmeter.core.json_text import decode_json
from capmeter.judgments.benchmark import Benchmark, LayoutReader, build_pairs, read_winner
from capmeter.judgments.protocol import Protocol
from capmeter.judgments.rows import JudgmentRow

SIDES = ("image_id", "candidate_a", "candidate_b")


def _read_valse(path: Path) -> list[JudgmentRow]:
    foil_entries = decode_json(read_text(path), str(path))
    if not isinstance(foil_entries, dict):
        raise InputError(f"{path}: expected id → caption and foil, as VALSE writes it")
    rows = []
    for foil_id, foil_entry in foil_entries.items():
        location = f"{path}, {foil_id!r}"
        try:
            votes = foil_entry["mturk"]
            row_fields = {
                "id": str(foil_id),
                "image_id": foil_entry["image_file"],
                "category": "foil",
                "candidate_a": foil_entry["caption"],
                "candidate_b": foil_entry["foil"],
                "references": [],
                "correct": "a",
                "human": votes,
                "valid": votes["caption"] >= 2,  # VALSE keeps what two of three annotators got right
            }
        except (KeyError, TypeError):
            raise InputError(f"{location}: expected caption, foil, image_file and mturk") from None
        rows.append(JudgmentRow(row_fields, location))
    return rows


def _foil_files(folder: Path) -> list[Path]:
    return [folder / name for name in ("foilv1.0_test_2017.json", "captions_val2014.json") if (folder / name).is_file()]


def _read_foil(folder: Path) -> list[JudgmentRow]:
    """FOIL's annotations: one entry with `foil` false per original caption, and those made of it with the same id."""
    foil_data, caption_data = (decode_json(read_text(path), str(path)) for path in _foil_files(folder))
    rows: list[JudgmentRow] = []
    try:
        file_names = {image_entry["id"]: image_entry["file_name"] for image_entry in foil_data["images"]}
        references_by_image: dict[int, list[str]] = {}
        for entry in caption_data["annotations"]:
            references_by_image.setdefault(entry["image_id"], []).append(entry["caption"])
        original_captions = {entry["id"]: entry["caption"] for entry in foil_data["annotations"] if not entry["foil"]}
        for entry in foil_data["annotations"]:
            if entry["foil"]:
                original_caption, image_id = original_captions[entry["id"]], entry["image_id"]
                row_fields = {
                    "id": str(entry.get("foil_id", f"{entry['id']}#{len(rows)}")),
                    "image_id": str(file_names.get(image_id, image_id)),
                    "candidate_a": original_caption,
                    "candidate_b": entry["caption"],
                    "references": [text for text in references_by_image.get(image_id, []) if text != original_caption],
                    "correct": "a",
                    "valid": True,
                }
                rows.append(JudgmentRow(row_fields, f"{folder}, foil of caption {entry['id']}"))
    except (KeyError, TypeError):
        expected_fields = "annotations with id, image_id, caption and foil, and COCO's captions of the same images"
        raise InputError(f"{folder}: expected {expected_fields}") from None
    return rows


def _correct(row: JudgmentRow, protocol: Protocol) -> float:
    return read_winner(row, "correct")


def _votes_or_correct(row: JudgmentRow, protocol: Protocol) -> float:
    return read_winner(row, "correct") if "correct" in row else sum(row.numbers(protocol.judgments))


def _votes(row: JudgmentRow, protocol: Protocol) -> tuple[tuple[float, ...], bool]:
    raw_votes = row.fields.get(protocol.judgments)
    return (row.numbers(protocol.judgments) if isinstance(raw_votes, list) else ()), "correct" not in row


FOIL = Benchmark(
    name="foil",
    title="FOIL in VALSE's selection: 1,000 captions and their foils (943 valid, 252 with references)",
    source="Shekhar et al. 2017; Parcalabescu et al. 2022, VALSE: data/foil-it.json",
    rows=1000,
    keys=(*SIDES, "references", "correct", "valid"),
    build=build_pairs(_correct),
    readers=(LayoutReader(what="VALSE's foil-it.json", accepts=lambda path: path.suffix == ".json", read=_read_valse),),
    protocols={
        "referenced": Protocol(
            name="referenced", leave_out=("invalid", "unreferenced"), statistic="accuracy", expect=237
        ),
        "valid": Protocol(name="valid", leave_out=("invalid",), statistic="accuracy", expect=943),
    },
)

FOIL_COCO = Benchmark(
    name="foil-coco",
    title="FOIL: a whole split, each caption and its foils",
    source="Shekhar et al. 2017, foilv1.0_test_2017.json; COCO: captions_val2014.json",
    keys=(*SIDES, "references", "correct"),
    build=build_pairs(_correct),
    readers=(
        LayoutReader(
            what="the folder with foilv1.0_test_2017.json and captions_val2014.json",
            accepts=lambda path: len(_foil_files(path)) == 2,
            read=_read_foil,
        ),
    ),
    protocols={
        "four-references": Protocol(name="four-references", references="first-4", statistic="accuracy"),
        "one-reference": Protocol(name="one-reference", references="first-1", statistic="accuracy"),
    },
)

REFORMULATIONS = Benchmark(
    name="reformulations",
    title="Reformulations: 5,208 machine captions and their corrections by people",
    source="Berger et al. 2025, caption_evaluation: full_reformulation_dataset.json",
    rows=5208,
    keys=(*SIDES, "references", "human", "identical"),
    build=build_pairs(lambda row, protocol: read_winner(row, "human")),
    protocols={
        "changed": Protocol(name="changed", leave_out=("identical", "unreferenced"), statistic="accuracy", expect=4037),
        "reference-free": Protocol(name="reference-free", leave_out=("identical",), statistic="accuracy", expect=4344),
    },
)

DISTRACTIONS = Benchmark(
    name="distractions",
    title="Forced-choice distractions: replace, share or just person or scene",
    source="Hodosh and Hockenmaier 2016",
    keys=(*SIDES, "references", "correct", "category"),
    build=build_pairs(_correct),
    protocols={
        "lceval": Protocol(name="lceval", statistic="accuracy", by="category"),
        "strict": Protocol(name="strict", statistic="accuracy", ties="strict", by="category"),
    },
)

PAIRS = Benchmark(
    name="pairs",
    title="Any file of pairs: candidate_a, candidate_b, and correct or votes",
    source="your own",
    keys=SIDES,
    build=build_pairs(_votes_or_correct, _votes),
    protocols={"accuracy": Protocol(name="accuracy", statistic="accuracy")},
)
