"""FENSE, SPIDEr-FL and `fer` from stored probabilities and from a classifier, beside a slow recomputation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import capmeter
from capmeter.core.errors import InputError
from capmeter.core.settings import Settings
from capmeter.evaluation.registry import parse
from capmeter.integrations import aac_metrics
from capmeter.metrics.audio.detector import error_probabilities

CANDIDATES = ["a dog barks", "a dog barks and a", "rain falls"]
REFERENCES = [["a dog is barking", "the dog barks"], ["a dog is barking"], ["rain is falling", "it rains"]]
PROBABILITIES = {"a dog barks": 0.1, "a dog barks and a": 0.95, "rain falls": 0.9}


@pytest.fixture
def errors(tmp_path: Path) -> str:
    path = tmp_path / "probabilities.json"
    path.write_text(json.dumps(PROBABILITIES))
    return f'errors="{path}"'


def score(metrics: list[str]) -> capmeter.Results:
    return capmeter.score(candidates=CANDIDATES, references=REFERENCES, metrics=metrics)


def test_penalty_of_any_metric_by_hand(errors: str) -> None:
    name, rate_name = f"penalised(metric=rouge-l,{errors})", f"fer({errors})"
    results = score([name, "rouge-l", rate_name])
    plain, rate = results["rouge-l"].items.array, results[rate_name]
    assert rate.items.array.tolist() == [0, 1, 0]  # .9 is not above .9
    assert rate.part_items["probability"].array.tolist() == list(PROBABILITIES.values())
    assert results[name].items.array.tolist() == [plain[0], plain[1] * (1 - 0.9), plain[2]]
    assert results[name].score == pytest.approx(results[name].items.array.mean())
    assert "detector:probabilities.json@" in results[rate_name].signature


@pytest.mark.neural
def test_fense_equals_a_slow_recomputation(errors: str) -> None:
    fense, cosine = f"fense({errors})", "sbert(pooling=mean)"
    results = score([fense, cosine])
    slow = [
        value * (1 - 0.9) if PROBABILITIES[text] > 0.9 else value
        for text, value in zip(CANDIDATES, results[cosine].items.array, strict=True)
    ]
    assert results[fense].items.array.tolist() == slow
    corpus, sentences = aac_metrics.fense(CANDIDATES, REFERENCES, errors=errors[8:-1])  # type: ignore[misc]
    assert sentences["fense"].tolist() == slow
    assert list(corpus) == ["sbert_sim", "fer", "fense"]


def test_spider_fl_and_the_sets_of_aac_metrics(errors: str, meteor_index: Path) -> None:
    name = f"spider-fl({errors})"
    results = score([name, "spider"])
    penalty = np.array([1, 1 - 0.9, 1])
    assert results[name].items.array.tolist() == (results["spider"].items.array * penalty).tolist()
    corpus, sentences = aac_metrics.evaluate(CANDIDATES, REFERENCES, metrics="dcase2023", errors=errors[8:-1])
    assert {"meteor", "cider_d", "spice", "spider", "fer", "spider_fl"} == set(corpus)
    assert sentences["spider_fl"].tolist() == (sentences["spider"] * penalty).tolist()
    assert aac_metrics.fer(CANDIDATES, errors=errors[8:-1], return_all_scores=False) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("".join(json.dumps({"text": t, "error": p, "kinds": {}}) + "\n" for t, p in PROBABILITIES.items()), "p.jsonl"),
        (json.dumps([{"text": t, "error": p} for t, p in PROBABILITIES.items()]), "p.json"),
        ("text,error\n" + "".join(f"{t},{p}\n" for t, p in PROBABILITIES.items()), "p.csv"),
    ],
)
def test_forms_of_files(content: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    metric = f'fer(errors="{tmp_path / name}")'
    assert score([metric])[metric].score == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a dog barks": 2}', "error is the number 2, expected a probability"),
        ('{"a dog barks": null}', "error is missing"),
        ('[{"text": "a"}]', "error is missing"),
        ("[5]", "entry 0: the number 5"),
        ('[{"text": "a", "error": 0}, {"text": "a", "error": 1}]', "two different probabilities"),
        ('{"a dog": 0.5}', "no probability for 3 captions"),
        ("{", "not valid JSON"),
    ],
)
def test_bad_files_get_a_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(InputError, match=sentence):
        score([f'fer(errors="{tmp_path / "p.json"}")'])


def test_sources_that_are_missing_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for source, sentence in (
        *(("", "No such file"), ("nowhere", "No such file"), ("no\0where.json", "null byte")),
        *((str(tmp_path / "loop"), "Too many levels of symbolic links"), ("/dev/zero", "a socket or a device")),
    ):
        with pytest.raises(InputError, match=f"errors=.*{sentence}.*; expected fluency, a file"):
            error_probabilities(source, ["a dog"], Settings())
    with pytest.raises(InputError, match=r"no config\.json"):
        score([f'fer(errors="{tmp_path}")'])
    for name, sentence in (("fer(threshold=2)", "threshold from 0 to 1"), ("fense(penalty=-1)", "penalty from 0 to 1")):
        with pytest.raises(InputError, match=sentence):
            parse(name)


@pytest.mark.neural
def test_a_classifier_in_a_folder(tmp_path: Path) -> None:
    """A small random BERT: its probability is the sigmoid of the label `error`."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "barks", "and", "rain", "falls"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = transformers.BertTokenizerFast(vocab_file=str(tmp_path / "vocab.txt"))
    torch.manual_seed(0)
    labels = {0: "repeat", 1: "error", 2: "tail"}
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        id2label=labels, label2id={label: k for k, label in labels.items()},
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path, safe_serialization=True)
    tokenizer.save_pretrained(tmp_path)
    metric = f'fer(errors="{tmp_path}",threshold=0.5)'
    scores = score([metric])[metric]
    for text, value in zip(CANDIDATES, scores.part_items["probability"].array, strict=True):
        with torch.inference_mode():
            logit = model(**tokenizer(text, return_tensors="pt")).logits[0, 1]
        assert value == pytest.approx(torch.sigmoid(logit).item(), abs=1e-6)
    assert "detector:" in scores.signature


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("penalised(metric=fer)", "lower values of metric=fer are better"),
        ("penalised(threshold=3)", "penalised: expected threshold from 0 to 1, but got 3"),
        ("spider-fl(penalty=2)", "spider-fl: expected penalty from 0 to 1, but got 2"),
    ],
)
def test_bad_parameters_get_a_sentence_when_they_are_read(name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse(name)


def test_a_file_of_the_same_time_and_another_size_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "probabilities.json"
    name = f'fer(errors="{path}")'
    for value, rate in ((0.1, 0.0), (0.95, 1.0)):
        path.write_text(json.dumps({"a dog": value}))
        os.utime(path, ns=(1, 1))
        assert capmeter.score(candidates=["a dog"], references=[["a dog"]], metrics=name)[name].score == rate
