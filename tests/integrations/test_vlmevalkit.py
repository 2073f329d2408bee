"""VLMEvalKit: its scorer's shape, and, where it is installed, its own evaluation of a prediction file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.frameworks import expected_scores, framework_python, run_framework, two_hundred

from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.integrations.vlmevalkit import COCO_Caption_Scorer, evaluate

METRICS = "bleu-1,bleu-2,bleu-3,bleu-4,rouge-l,cider-d"


def arguments(rows: list[dict[str, Any]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    return (
        {str(row["image_id"]): [row["candidate"]] for row in rows},
        {str(row["image_id"]): row["references"] for row in rows},
    )


def expected_values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    results = expected_scores(rows, METRICS)
    intervals = results.intervals()
    bleu = [f"bleu-{k}" for k in (1, 2, 3, 4)]
    values: dict[str, Any] = {}
    for suffix, value in (
        ("", lambda name: results[name].score),
        ("_low", lambda name: intervals[name][0]),
        ("_high", lambda name: intervals[name][1]),
    ):
        values[f"Bleu{suffix}"] = [100 * value(name) for name in bleu]
        values |= {f"ROUGE_L{suffix}": 100 * value("rouge-l"), f"CIDEr{suffix}": 100 * value("cider-d")}
    return values


def test_raw_sentences_have_the_scores_of_their_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    rows = two_hundred()
    scores = COCO_Caption_Scorer(*arguments(rows)).compute_scores()
    assert scores == expected_values(rows)
    assert list(scores)[:3] == ["Bleu", "ROUGE_L", "CIDEr"]
    assert f"CIDEr: {scores['CIDEr']}" in capsys.readouterr().out


def test_a_prediction_file_keeps_its_ids_and_runs_no_code(tmp_path: Path) -> None:
    rows = two_hundred()
    path = write_predictions(tmp_path, rows)
    assert evaluate(path, nproc=4, verbose=False) == expected_values(rows)
    assert json.loads((tmp_path / "stub_COCO_VAL_score.json").read_text("utf-8")) == expected_values(rows)
    rows[0]["references"] = "__import__('os').mkdir('made')"
    with pytest.raises(InputError, match="own references"):
        evaluate(write_predictions(tmp_path, [row | {"references": [rows[0]["references"]]} for row in rows]))
    assert not Path("made").exists()


def write_predictions(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "stub_COCO_VAL.tsv"
    lines = [f"{row['image_id']}\t{row['references']}\t{row['candidate']}\n" for row in rows]
    path.write_text("index\tanswer\tprediction\n" + "".join(lines), "utf-8")
    return path


def test_references_of_other_images_and_bad_arguments_are_refused() -> None:
    rows = two_hundred()
    ref, gt = arguments(rows)
    shifted = dict(zip(gt, [*list(gt.values())[9:], *list(gt.values())[:9]], strict=True))
    with pytest.raises(InputError, match="the references belong to other images"):
        COCO_Caption_Scorer(ref, shifted).compute_scores()
    with pytest.raises(InputError, match="only in ref: 7; only in gt: 8"):
        COCO_Caption_Scorer({"7": ["a"]}, {"8": ["a"]})
    with pytest.raises(InputError, match="each once, whether as a number or as text"):
        COCO_Caption_Scorer({7: ["a"], "7": ["b"]}, {7: ["a"], "7": ["b"]})
    for value, found in ((["a", "b"], "a list of 2"), (None, "missing"), (5, "the number 5"), ({0: "a"}, "an object")):
        with pytest.raises(InputError, match=rf"ref\['7'\] is {found}.*, expected a list of one caption"):
            COCO_Caption_Scorer({"7": value}, {"7": ["a"]}).compute_scores()  # type: ignore[dict-item]


def test_an_answer_without_references_is_named_without_options_of_other_commands(tmp_path: Path) -> None:
    path = write_predictions(tmp_path, [row | {"references": []} for row in two_hundred()[:1]])
    with pytest.raises(InputError, match="answers without references: ") as error:
        evaluate(path)
    assert "--" not in str(error.value)


def test_failed_and_empty_answers_are_warnings(tmp_path: Path) -> None:
    rows = two_hundred()
    rows[3]["candidate"], rows[5]["candidate"] = "Failed to obtain answer via API.", ""
    with pytest.warns(CapmeterWarning) as warnings:
        evaluate(write_predictions(tmp_path, rows), metrics="ROUGE_L")
    noted = {str(each.message).split(":")[0]: str(each.message).split(": ")[1] for each in warnings}
    assert noted["empty candidate"] == str(rows[5]["image_id"])
    assert noted["error messages of a program or a server in place of a caption"] == str(rows[3]["image_id"])


RUN = """
import importlib.util, json, sys, types
folder = importlib.util.find_spec("vlmeval").submodule_search_locations[0]
for name in ("vlmeval", "vlmeval.dataset"):  # without their __init__, which imports every model and data set
    module = types.ModuleType(name)
    module.__path__ = [folder + name[len("vlmeval"):].replace(".", "/")]
    sys.modules[name] = module
from vlmeval.dataset import image_caption
from capmeter.integrations import vlmevalkit
image_caption.COCO_Caption_Scorer = vlmevalkit.COCO_Caption_Scorer
first = image_caption.ImageCaptionDataset.evaluate("stub_COCO_VAL.tsv")
image_caption.ImageCaptionDataset.evaluate = staticmethod(vlmevalkit.evaluate)
second = image_caption.ImageCaptionDataset.__new__(image_caption.ImageCaptionDataset).evaluate("stub_COCO_VAL.tsv")
json.dump([first, second], open("both.json", "w"))
"""


@pytest.mark.slow
def test_the_framework_s_own_evaluation_has_the_scores(tmp_path: Path) -> None:
    """Its class with the scorer exchanged, and with the evaluation exchanged; its own score file."""
    python = framework_python("ms-vlmeval", "vlmeval")
    rows = two_hundred()
    write_predictions(tmp_path, rows)
    (tmp_path / "run.py").write_text(RUN, "utf-8")
    run_framework(python, "run.py", folder=tmp_path)
    expected = expected_values(rows)
    for scores in (*json.loads((tmp_path / "both.json").read_text("utf-8")), read_score_file(tmp_path)):
        assert scores.keys() == expected.keys()
        for name, value in expected.items():
            assert scores[name] == pytest.approx(value, abs=1e-10)  # hundredths: 1e-12 of the score


def read_score_file(folder: Path) -> Any:
    (path,) = folder.glob("**/stub_COCO_VAL_score.json")
    return json.loads(path.read_text("utf-8"))
