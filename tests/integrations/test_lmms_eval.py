"""lmms-eval: its signatures and calls, and, where it is installed, one of its tasks from end to end."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.frameworks import COCO_METRICS, ROOT, expected_scores, framework_python, run_framework, two_hundred

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.integrations import model_answers
from capmeter.integrations.lmms_eval import CaptionTask
from capmeter.text.tokenization import ptb

TASKS = ROOT / "examples" / "lmms_eval"
NAMES = dict(
    zip(("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr"), COCO_METRICS.split(","), strict=True)
)
FAST = ("Bleu_4", "ROUGE_L", "CIDEr")


def document(row: dict[str, Any]) -> dict[str, Any]:
    return {"question_id": row["image_id"], "answer": row["references"], "image": None}


def evaluate_task(task: CaptionTask, rows: list[dict[str, Any]], args: Any = None) -> dict[str, float]:
    """What the framework does: entries of each document, then every metric's entries to the aggregation."""
    entries: dict[str, list[Any]] = {}
    for row in rows:
        for name, entry in task.process_results(document(row) | row, [row["candidate"]]).items():
            entries.setdefault(name, []).append(entry)
    return {name: task.aggregate(each, args=args) for name, each in entries.items()}


def test_every_number_is_that_of_score_with_its_interval() -> None:
    rows = two_hundred()
    values = evaluate_task(CaptionTask("coco", FAST, image_id="question_id", references="answer"), rows)
    results = expected_scores(rows, "bleu-4,rouge-l,cider-d")
    intervals = results.intervals()
    for name in FAST:
        metric = NAMES[name]
        assert values[f"coco_{name}"] == results[metric].score
        assert (values[f"coco_{name}_low"], values[f"coco_{name}_high"]) == intervals[metric]


def test_an_interval_is_never_that_of_another_model() -> None:
    """Two models' captions of the same images, where the second's interval is asked for before its score."""
    task = CaptionTask("coco", ["ROUGE_L"], image_id="question_id", references="answer")
    rows = two_hundred()
    evaluate_task(task, rows)
    others = [row | {"candidate": f"{row['candidate']} again"} for row in rows]
    entries = [task.process_results(document(row), [row["candidate"]]) for row in others]
    with pytest.raises(InputError, match="an interval is asked for before any score"):
        task.aggregate([each["coco_ROUGE_L_low"] for each in entries])
    task.aggregate([each["coco_ROUGE_L"] for each in entries])
    low = task.aggregate([each["coco_ROUGE_L_low"] for each in entries])
    assert low == expected_scores(others, "rouge-l").intervals()["rouge-l"][0]


@pytest.mark.parametrize("metrics", [FAST, pytest.param((*FAST, "METEOR"), marks=pytest.mark.meteor)])
def test_each_sentence_is_tokenised_once_for_all_metrics(
    metrics: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Although the framework makes the task anew for each function, and calls the aggregation for each metric."""
    if "METEOR" in metrics:
        monkeypatch.setenv("CAPMETER_CACHE", str(request.getfixturevalue("meteor_index")))
    tokenised: list[str] = []

    def count(function: Any, sentences: Any) -> Any:
        tokenised.extend(sentences)
        return function(sentences)

    for name in ("tokenise_to_ids", "tokenise_all"):  # whatever tokenises sentences goes through one of these
        monkeypatch.setattr(ptb, name, functools.partial(count, getattr(ptb, name)))
    rows = [row | {"candidate": row["candidate"] + " once"} for row in two_hundred()]
    entries: dict[str, list[Any]] = {}
    for row in rows:
        task = CaptionTask("once", metrics, image_id="question_id", references="answer")
        for name, entry in task.process_results(document(row), [row["candidate"]]).items():
            entries.setdefault(name, []).append(entry)
    for each in entries.values():
        CaptionTask("once", metrics, image_id="question_id", references="answer").aggregate(each)
    assert len(entries) == 3 * len(metrics)
    assert sorted(tokenised) == sorted({text for row in rows for text in (row["candidate"], *row["references"])})


def test_results_are_written_whole_with_ids_and_signatures(tmp_path: Path) -> None:
    rows = two_hundred()
    task = CaptionTask("coco", FAST, image_id="question_id", references="answer")
    evaluate_task(task, rows, SimpleNamespace(output_path=str(tmp_path / "out")))
    saved = capmeter.Results.read(tmp_path / "out" / "submissions" / "coco_capmeter.json")
    results = expected_scores(rows, "bleu-4,rouge-l,cider-d")
    assert list(saved.ids.names) == [str(row["image_id"]) for row in rows]
    assert {name: each.score for name, each in saved.items()} == {name: each.score for name, each in results.items()}
    assert saved["cider-d"].signature == results["cider-d"].signature


def test_references_of_other_images_are_refused_and_the_captions_kept(tmp_path: Path) -> None:
    rows = two_hundred()
    references = [row["references"] for row in rows]
    shifted = [row | {"references": each} for row, each in zip(rows, references[9:] + references[:9], strict=True)]
    task = CaptionTask("coco", FAST, image_id="question_id", references="answer")
    with pytest.raises(InputError, match=r"task coco: not scored: .*the references belong to other images"):
        evaluate_task(task, shifted, SimpleNamespace(output_path=str(tmp_path)))
    remaining = capmeter.load(tmp_path / "submissions" / "coco_captions.jsonl")
    assert [caption.candidate for caption in remaining] == [row["candidate"] for row in rows]
    warned = CaptionTask("coco", FAST, image_id="question_id", references="answer", on_mismatch="warn")
    with pytest.warns(CapmeterWarning, match="belong to other images"):
        assert evaluate_task(warned, shifted)["coco_CIDEr"] < 1


def test_references_in_one_text_are_a_list_or_refused() -> None:
    # The public report of CIDEr 0.0000, BLEU-1 .0145, METEOR .0748, ROUGE-L .2079 has the numbers of this mistake.
    rows = [row | {"references": [" ".join(row["references"] * 4)]} for row in two_hundred()]
    with pytest.raises(InputError, match="joined into one text"):
        evaluate_task(CaptionTask("coco", FAST, image_id="question_id", references="answer"), rows)
    rows = two_hundred()
    as_text = [row | {"references": str(row["references"])} for row in rows]
    task = CaptionTask("coco", FAST, image_id="question_id", references="answer")
    assert evaluate_task(task, as_text) == evaluate_task(task, rows)


def test_parts_of_the_data_set_are_scored_as_sets_of_their_own() -> None:
    rows = [row | {"domain": ("in", "out")[k % 3 == 0]} for k, row in enumerate(two_hundred())]
    task = CaptionTask(
        "nocaps", ["CIDEr"], image_id="question_id", references="answer", group="domain", groups=("in", "out")
    )
    values = evaluate_task(task, rows)
    for part in ("in", "out"):
        results = expected_scores([row for row in rows if row["domain"] == part], "cider-d")
        assert values[f"nocaps_CIDEr_{part}"] == results["cider-d"].score
        assert values[f"nocaps_CIDEr_{part}_high"] == results.intervals()["cider-d"][1]
    assert values["nocaps_CIDEr"] == expected_scores(rows, "cider-d")["cider-d"].score


def test_several_answers_are_candidates_of_one_image() -> None:
    task = CaptionTask("coco", ["ROUGE_L"], image_id="question_id", references="answer")
    entry = task.process_results({"question_id": 7, "answer": ["a dog runs"]}, ["a dog runs", ["a cat"]])
    assert task.aggregate([entry["coco_ROUGE_L"]]) == pytest.approx((1 + expected_one("a cat", "a dog runs")) / 2)


def expected_one(candidate: str, reference: str) -> float:
    return capmeter.score(candidates=[candidate], references=[[reference]], metrics="rouge-l")["rouge-l"].score


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({"answer": ["a"]}, "no field 'question_id'; it has answer"),
        ({"question_id": 7}, "no field 'answer'; it has question_id"),
        ({"question_id": 7, "answer": [7]}, r"image 7: the references\[0\] is the number 7"),
        ({"question_id": None, "answer": ["a"]}, "the id of a document is missing"),
        ({"question_id": 7, "answer": ["a"], "domain": "far"}, 'its part is the text "far", expected one of in, out'),
    ],
)
def test_documents_that_cannot_be_scored_are_refused_before_the_model_runs(doc: dict[str, Any], message: str) -> None:
    group = {"group": "domain", "groups": ("in", "out")} if "domain" in doc else {}
    task = CaptionTask("coco", image_id="question_id", references="answer", **group)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        task.doc_to_text(doc)


def test_prompts_answers_and_metrics_that_are_not_as_expected() -> None:
    task = CaptionTask("coco", FAST, image_id="question_id", references="answer", prompt="Caption it.")
    doc = {"question_id": 7, "answer": ["a dog"]}
    assert (task.doc_to_text(doc), task.doc_to_text(doc, {"prompt": "Look."})) == ("Caption it.", "Look.")
    for results, found in (
        ([], "missing"),
        (None, "missing"),
        ([None], "missing"),
        ([{"a": 1}], "an object"),
        ([[5]], "t"),
    ):
        with pytest.raises(InputError, match=f"image 7: the model's answer is {found}"):
            task.process_results(doc, results)  # type: ignore[arg-type]
    assert task.process_results(doc, "a dog")["coco_CIDEr"]["pred"] == "a dog"
    with pytest.raises(InputError, match=r"an interval is asked for before any score; list coco_METRIC beside"):
        task.aggregate([task.process_results(doc | {"question_id": 12345}, ["a"])["coco_CIDEr_low"]])
    with pytest.raises(InputError, match="both group"):
        CaptionTask("coco", image_id="question_id", references="answer", groups=("in",))
    with pytest.raises(InputError, match="no metric was given"):
        CaptionTask("coco", [], image_id="question_id", references="answer")
    with pytest.raises(InputError, match="task coco: answers without references: 7") as error:
        task.aggregate([task.process_results(doc | {"answer": []}, ["a dog"])["coco_CIDEr"]])
    assert "on_missing" not in str(error.value)
    with pytest.raises(InputError, match="on_mismatch is 'skip'"):
        model_answers.score_answers([{"image_id": 7, "candidate": "a", "references": ["a"]}], [], on_mismatch="skip")  # type: ignore[arg-type]


DOCUMENTS = {
    "coco": {"question_id": "COCO_val2014_000000000042.jpg", "answer": ["a dog"]},
    "nocaps": {"image_id": 42, "annotations_captions": ["a dog"], "image_domain": "near-domain"},
    "flickr30k": {"img_id": "42", "caption": ["a dog"]},
    "textcaps": {"image_id": "0a42", "caption_str": ["a dog"]},
    "vatex": {"videoID": "abc_0_10", "enCap": ["a dog"]},
    "coco_cap_chair": {"question_id": "42", "gt_object": ["dog", "hot dog"]},
    "detailcaps": {"image": "42.jpg"} | {f"GT_Caption_{name}": "a dog" for name in ("GPT4O", "GPT4V", "Gemini15Pro")},
}


def read_tasks() -> Iterator[Any]:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    spec = importlib.util.spec_from_file_location("utils", TASKS / "utils.py")
    assert spec is not None and spec.loader is not None
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined, unused-ignore]
        pass

    Loader.add_constructor("!function", lambda loader, node: getattr(utils, node.value.removeprefix("utils.")))
    for path in sorted(TASKS.glob("*.yaml")):
        yield path.stem.removesuffix("_capmeter"), yaml.load(path.read_text("utf-8"), Loader)


def test_the_example_tasks_name_functions_and_metrics_that_are_there() -> None:
    tasks = dict(read_tasks())
    assert tasks.keys() == DOCUMENTS.keys()
    for name, task in tasks.items():
        assert task["doc_to_text"](DOCUMENTS[name])
        entries = task["process_results"](DOCUMENTS[name], ["a dog runs"])
        listed = {each["metric"]: each for each in task["metric_list"]}
        assert len(listed) == len(task["metric_list"]) and listed.keys() <= entries.keys()
        if name in ("coco_cap_chair", "detailcaps"):  # which score with metrics that need an extra
            continue
        score = listed[f"{name}_CIDEr"]["aggregation"]([entries[f"{name}_CIDEr"]])
        assert (
            score
            == capmeter.score(candidates=["a dog runs"], references=[["a dog"]], metrics="cider-d")["cider-d"].score
        )


@pytest.mark.meteor
def test_the_example_of_chair_counts_objects_by_hand(meteor_index: Path) -> None:
    """A picture with a dog, a person and a hot dog, one with a cat and a plant; the car is not there."""
    task = dict(read_tasks())["coco_cap_chair"]
    pairs = [
        (["dog", "person", "hot dog"], "A man and a dog eat a hot dog near a car."),
        (["cat", "potted plant"], "A cat by a plant."),  # a plant need not be potted
    ]
    entries = [
        task["process_results"]({"question_id": k, "gt_object": objects}, [text])
        for k, (objects, text) in enumerate(pairs)
    ]
    values = {
        each["metric"]: each["aggregation"]([entry[each["metric"]] for entry in entries])
        for each in task["metric_list"]
    }
    assert values["coco_cap_chair_i"] == 1 / 5  # the car among five mentions
    assert values["coco_cap_chair_s"] == 1 / 2
    assert values["coco_cap_chair_recall"] == 4 / 5
    assert not [each for each in task["metric_list"] if each["higher_is_better"] and "recall" not in each["metric"]]


STUB = """
from lmms_eval.api.model import lmms

class Stub(lmms):
    def __init__(self, **options):
        super().__init__()

    def generate_until(self, requests):
        dataset = self.task_dict
        answers = []
        for request in requests:
            context, options, to_visual, doc_id, task, split = request.args
            answers.append(dataset[task][split][doc_id]["stub"])
        return answers

    def loglikelihood(self, requests):
        raise NotImplementedError

    def generate_until_multi_round(self, requests):
        raise NotImplementedError
"""


@pytest.mark.meteor
@pytest.mark.slow
def test_a_task_runs_from_end_to_end(tmp_path: Path, meteor_index: Path) -> None:
    """The framework's own command and result file, on two hundred captions of a stub model."""
    python = framework_python("lmms-eval", "lmms_eval")
    rows = two_hundred()
    make_task(tmp_path, rows)
    command = "-m lmms_eval --model stub --tasks coco_capmeter --include_path stub_plugin/tasks --output_path out"
    command += " --log_samples --batch_size 1"
    environment = {"LMMS_EVAL_PLUGINS": "stub_plugin", "CAPMETER_CACHE": str(meteor_index)}
    printed = run_framework(python, *command.split(), folder=tmp_path, **environment)
    (path,) = tmp_path.glob("out/**/*_results.json")
    saved = json.loads(path.read_text("utf-8"))["results"]["coco_capmeter"]
    results = expected_scores(rows)
    intervals = results.intervals()
    for name, metric in NAMES.items():
        assert saved[f"coco_{name},none"] == pytest.approx(results[metric].score, abs=1e-12)
        assert saved[f"coco_{name}_low,none"] == pytest.approx(intervals[metric][0], abs=1e-12)
        assert f"coco_{name} " in printed  # in the table
    (samples,) = tmp_path.glob("out/**/*_samples_coco_capmeter.jsonl")
    assert capmeter.score(samples, "cider-d")["cider-d"].score == results["cider-d"].score
    stored = capmeter.Results.read(next(tmp_path.glob("out/**/coco_capmeter.json")))
    assert {name: each.score for name, each in stored.items()} == {name: each.score for name, each in results.items()}


def make_task(folder: Path, rows: list[dict[str, Any]]) -> None:
    """The example task for COCO on rows of a local file, and a plug-in with the stub model."""
    plugin = folder / "stub_plugin"
    (plugin / "models").mkdir(parents=True)
    (plugin / "tasks").mkdir()
    (plugin / "__init__.py").touch()
    (plugin / "models" / "__init__.py").write_text('AVAILABLE_MODELS = {"stub": "Stub"}\n')
    (plugin / "models" / "stub.py").write_text(STUB)
    (plugin / "tasks" / "utils.py").write_bytes((TASKS / "utils.py").read_bytes())
    docs = [document(row) | {"image": "none", "stub": row["candidate"]} for row in rows]
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs), "utf-8")
    task = (TASKS / "coco_capmeter.yaml").read_text("utf-8")
    local = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    val: {data}\n"
    task = task.replace("dataset_path: lmms-lab/COCO-Caption2017\n", local)
    (plugin / "tasks" / "coco_capmeter.yaml").write_text(task)
