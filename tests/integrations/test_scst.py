"""Rewards: the evaluator's numbers, frozen idf, the end of a caption as a word."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.caption_sets import ROWS
from support.hostile_values import DEEP
from support.judge_server import JudgeServer, completion
from support.shared_files import read_rows
from support.vision_models import pictures, tiny_clip

import capmeter
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning
from capmeter.evaluation.registry import parse
from capmeter.integrations.scst import reward
from capmeter.metrics.combined.combination import Combination

REFERENCES = {
    391895: ["A man rides a red bike down the road.", "A man on a bike", "Man riding a bicycle"],
    "dog": ["A dog runs on the grass.", "The dog is running, fast."],
    "cake": ["1 1/2 cakes on a plate"],
}
METRICS = ["cider-d", "cider", "cider-r", "bleu-1", "bleu-4", "rouge-l", "cider-d(n=2,sigma=1.0)"]


@pytest.mark.parametrize(
    ("metric", "tolerance"),
    [
        *((metric, 1e-14) for metric in METRICS),
        ("sparcs", 1e-12),
        pytest.param("smurf(encoder=minilm)", 1e-6, marks=pytest.mark.neural),
        (Combination(members=(parse("bleu-4"), parse("cider-d"))), 1e-6),
        (Combination(members=(parse("cider-d"), parse("sparcs")), weights=(0.3, 0.7)), 1e-6),
    ],
    ids=str,
)
def test_equals_the_evaluator(metric: Any, tolerance: float) -> None:
    candidates = ["A man rides a bike!", "a dog, a dog", "1 1/2 cakes"]
    expected = capmeter.score(candidates=candidates, references=list(REFERENCES.values()), metrics=[metric])[metric]
    scorer = reward(metric, references=REFERENCES)
    actual = scorer(candidates, list(REFERENCES))
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected.items.array, rtol=0, atol=tolerance)
    assert np.ptp(actual) > 0
    assert scorer.signature == f"{expected.signature}|eos:none"


@pytest.mark.parametrize("metric", ["cider-d", "bleu-4", "rouge-l"])
@given(rows=ROWS)
@settings(max_examples=40)
def test_equals_the_evaluator_on_anything(metric: str, rows: list[tuple[str, list[str]]]) -> None:
    candidates, references = [one for one, _ in rows], [many for _, many in rows]
    expected = capmeter.score(candidates=candidates, references=references, metrics=metric)[metric].items.array
    scorer = reward(metric, references=dict(enumerate(references)))
    order = list(range(len(rows)))[::-1]
    np.testing.assert_allclose(scorer([candidates[k] for k in order], order), expected[order], rtol=0, atol=1e-12)
    np.testing.assert_allclose([scorer([candidates[k]], [k])[0] for k in order], expected[order], rtol=0, atol=1e-12)


def test_idf_is_frozen_and_order_is_kept() -> None:
    scorer = reward(references=REFERENCES)
    complete = scorer(["a dog runs", "a man", "a man", "cakes"], ["dog", 391895, "dog", "cake"])
    assert complete[0] == scorer(["a dog runs"], ["dog"])[0] > 0
    backwards = scorer(["cakes", "a man", "a man", "a dog runs"], ["cake", "dog", 391895, "dog"])
    assert complete.tolist() == backwards[::-1].tolist()
    assert scorer([], []).shape == (0,)
    assert scorer(np.array(["a man", "a man"]), np.array([391895, 391895])).shape == (2,)


def test_token_ids_and_an_array_of_them() -> None:
    ids = {0: [[4, 8, 5], [4, 8, 6, 2]], 1: [[3, 9]]}
    words = {0: ["4 8 5", "4 8 6 2"], 1: ["3 9"]}
    sampled, images = [[4, 8, 5], [9, 9, 9], [3, 9, 1]], [0, 1, 1]
    by_ids = reward("cider-d", references=ids)
    by_words = reward("cider-d(tokenizer=whitespace)", references=words)
    expected = by_words([" ".join(map(str, one)) for one in sampled], images)
    assert by_ids(sampled, images).tolist() == expected.tolist()
    assert by_ids(np.array(sampled), np.array(images)).tolist() == expected.tolist()
    assert by_ids.signature == by_words.signature
    padded = {0: np.array([[4, 8, 5, 0], [4, 8, 6, 2]]), 1: np.array([[3, 9, 0, 0]])}
    end_scorer = reward("cider-d", references=ids, eos=0)
    assert reward("cider-d", references=padded, eos=0)(sampled, images).tolist() == end_scorer(sampled, images).tolist()


def test_the_end_is_a_word() -> None:
    ids = {0: [[4, 8], [4, 8, 6]], 1: [[3, 9]]}
    with_end = {0: [[4, 8, 0], [4, 8, 6, 0]], 1: [[3, 9, 0]]}
    end_scorer = reward("bleu-2", references=ids, eos=0)
    plain = reward("bleu-2", references=with_end)
    assert end_scorer([[4, 8, 0, 7, 0], [3, 9]], [0, 1]).tolist() == plain([[4, 8, 0], [3, 9]], [0, 1]).tolist()
    assert reward("bleu-2", references=with_end, eos=0)([[4, 8, 0]], [0]) == end_scorer([[4, 8, 0]], [0])
    assert end_scorer.signature.endswith("|eos:0")
    assert reward("bleu-2", references=ids).signature.endswith("|eos:none")


def test_the_end_in_text_need_not_be_a_token() -> None:
    scorer = reward("cider-d(tokenizer=whitespace)", references={0: ["a dog <e>"], 1: ["two cats <e>", "a cat <e>"]})
    end_scorer = reward("cider-d", references={0: ["A dog."], 1: ["Two cats!", "a cat"]}, eos="<e>")
    full_stop = reward("cider-d", references={0: ["A dog"], 1: ["Two cats", "a cat"]}, eos=".")
    expected = scorer(["a dog <e>", "two cats"], [0, 1])
    assert end_scorer(["A dog, <e> <e> and more", "two cats"], [0, 1]).tolist() == expected.tolist()
    assert full_stop(["A dog . and more", "two cats"], [0, 1]).tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    once = reward("bleu-1", references={0: ["a dog"]}, eos="<e>")
    assert once(["<e>"], [0]) > once([""], [0])


def test_idf_from_a_saved_file(tmp_path: Path) -> None:
    path = tmp_path / "idf.npz"
    scorer = reward("cider-d", references=REFERENCES)
    scorer.state.save(path)
    some = reward(f'cider-d(idf="{path}")', references={"dog": REFERENCES["dog"]})
    assert some(["a dog runs"], ["dog"]) == scorer(["a dog runs"], ["dog"])
    assert "idf.npz/3 documents" in some.signature
    assert reward("cider-d", references={"dog": REFERENCES["dog"]})(["a dog runs"], ["dog"]) == 0


def test_real_captions(shared: Path) -> None:
    rows = read_rows(shared / "data" / "coco_karpathy_test_captions.jsonl.gz")[:500]
    candidates = [row["captions"]["m2_transformer"] for row in rows]
    references = {row["image_id"]: row["references"] for row in rows}
    expected = capmeter.score(candidates=candidates, references=list(references.values()), metrics="cider-d")
    scorer = reward(references=references)
    parts = [scorer(candidates[k : k + 70], list(references)[k : k + 70]) for k in range(0, 500, 70)]
    assert np.concatenate(parts).tolist() == expected["cider-d"].items.array.tolist()


BAD: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({}, ["a dog"], ["cow"], "1 caption is of images without references .the first: the text .cow"),
    ({}, ["a dog"], [DEEP], "1 caption is of images without references .the first: a list of 1"),
    ({}, ["a dog"], [10**5000], "the first: a number of more than 40 digits"),
    ({}, ["a dog"], ["dog", "dog"], "one image id for each candidate"),
    ({}, "a dog", ["dog"], "for each c"),
    ({}, [[1, 2]], ["dog"], "candidate 0: expected a caption as text"),
    ({"references": {1: [[1, 2]]}}, ["a"], [1], "candidate 0: expected a sequence of token ids"),
    *(
        ({"references": {1: [[1, 2]], 2: [[3]]}}, [tokens], [1], "candidate 0: expected a sequence of token ids")
        for tokens in (b"w1", bytearray(b"w1"), memoryview(b"w1"))
    ),
    ({"references": {1: [[1, 2]]}}, [[1.5]], [1], "candidate 0: expected a sequence of token ids"),
]


@pytest.mark.parametrize(("arguments", "candidates", "images", "sentence"), BAD)
def test_mistakes_in_a_batch(arguments: dict[str, Any], candidates: Any, images: Any, sentence: str) -> None:
    scorer = reward(**{"references": REFERENCES, **arguments})
    with pytest.raises(InputError, match=sentence):
        scorer(candidates, images)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"references": ["a dog"]}, "expected a dict image id"),
        ({"references": {"a": 5}}, r"references\['a'\]: expected a list .* got the number 5"),
        ({"references": {"a": None}}, "got missing"),
        ({"references": {"a": {"x": "y"}}}, "got an object with the fields x"),
        ({"references": {"a": [10**5000]}}, "expected a sequence of token ids like the others, got a number of more"),
        ({"references": {"a": [[10**5000]]}}, "a number of more than 40 digits is not a token id"),
        ({"references": {"a": [[4, -7]]}}, "the number -7 is not a token id"),
        ({"references": {7: ["a"], "7": ["b"]}}, "an image id is given as a number and as text"),
        ({"references": {1: [[1]]}, "eos": 1.5}, "eos: expected an id"),
        ({"references": {1: [[1]]}, "bos": "<s>"}, "bos: expected an id"),
        ({"references": REFERENCES, "eos": "<e>", "pad": 0}, "are of token ids"),
        ({"references": {1: [[1]]}, "generation": object()}, "expected a tokenizer, a generation config"),
        ({"references": {}}, "expected a dict image id"),
        ({"references": {1: "a dog"}}, r"references\[1\]: expected a list"),
        ({"references": {1: ["a"], 2: []}}, r"references\[2\]: expected a list of at least one"),
        ({"references": {1: ["a"], 2: [[1]]}}, r"references\[2\]: expected a caption as text"),
        ({"references": {1: [[1]], 2: ["a"]}}, r"references\[2\]: expected a sequence of token ids"),
        ({"references": REFERENCES, "eos": 0}, "eos is the number 0, expected a word, as the"),
        ({"references": {1: [[1]]}, "eos": "<e>"}, "eos is the text .<e>., expected an id, as"),
        ({"references": REFERENCES, "eos": "the end"}, "one word"),
        ({"references": REFERENCES, "metric": "cider-x"}, "unknown metric"),
    ],
)
def test_mistakes_at_the_start(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        reward(**arguments)


def test_a_combination_of_words_reads_token_ids() -> None:
    ids = {"7": [[4, 8, 5], [4, 8, 6, 2]], "9": [[3, 9]]}
    members = parse("bleu-2"), parse("cider-d")
    batch = [[4, 8, 5, 0, 0], [4, 8], [3, 9, 0]], ["7", "7", "9"]
    both = reward(Combination(members=members), references=ids, eos=0)
    each = [reward(member, references=ids, eos=0)(*batch) for member in members]
    np.testing.assert_allclose(both(*batch), (each[0] + each[1]) / 2, rtol=0, atol=1e-15)
    assert "tokenizer:whitespace" in both.signature
    with pytest.raises(InputError, match="needs the scores of a whole run first"):
        reward(Combination(members=members, standardised=True), references=ids)


def test_metrics_that_are_not_of_words() -> None:
    with pytest.raises(InputError, match="leave eos out"):
        reward("sparcs", references=REFERENCES, eos="<e>")
    with pytest.raises(InputError, match="reads text, not token ids"):
        reward("sparcs", references={1: [[1, 2]]})


def test_the_package_offers_it_without_importing_it() -> None:
    code = "import sys, capmeter; assert 'capmeter.integrations' not in sys.modules; print(capmeter.reward.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "reward"


IDS = {
    7: [[11, 12, 13, 14, 15], [11, 12, 13, 16]],
    9: [[21, 22, 23, 24], [21, 22, 25, 24]],
    8: [[31, 32, 33, 34], [35, 36]],
}
SAMPLED = [[11, 12, 13, 14, 15], [21, 22, 23, 24], [31, 32, 36]]


def lay_out(begin: list[int], end: int, pad: int, *, left: bool = False) -> np.ndarray:
    """The sampled captions as `generate()` returns them, one row each."""
    rows = [[*begin, *ids, end] for ids in SAMPLED]
    width = max(map(len, rows)) + 1
    return np.array([[pad] * (width - len(row)) + row if left else row + [pad] * (width - len(row)) for row in rows])


@pytest.mark.parametrize(
    ("arguments", "sampled"),
    [
        pytest.param({"eos": 1, "bos": 0, "pad": 0}, lay_out([0], 1, 0), id="T5: the start is the padding"),
        pytest.param({"eos": 1, "pad": 0}, lay_out([0], 1, 0), id="T5 without bos"),
        pytest.param({"eos": 2, "bos": [2, 0], "pad": 1}, lay_out([2, 0], 2, 1), id="BART: the start is the end"),
        pytest.param({"eos": 2, "bos": 2, "pad": 1}, lay_out([2], 2, 1), id="mBART-like"),
        pytest.param({"eos": 2, "bos": [2, 0], "pad": 1}, lay_out([], 2, 1), id="BART, its start left out"),
        pytest.param({"eos": 3, "pad": 3}, lay_out([], 3, 3), id="GPT-2: the padding is the end"),
        pytest.param({"eos": 3, "pad": 3}, lay_out([], 3, 3, left=True), id="GPT-2, padded left"),
        pytest.param(
            {"eos": 3, "bos": 3, "pad": 3}, lay_out([3], 3, 3, left=True), id="GPT-2, padded left, with start"
        ),
        pytest.param(
            {"eos": [3, 4], "bos": 1, "pad": 0}, lay_out([1], 4, 0, left=True), id="Llama: two ends, padded left"
        ),
        pytest.param({"eos": 1}, lay_out([], 1, -100), id="labels"),
    ],
)
def test_layouts_of_generate_give_the_rewards_of_the_captions(arguments: dict[str, Any], sampled: np.ndarray) -> None:
    eos = arguments["eos"] if isinstance(arguments["eos"], int) else arguments["eos"][0]
    plain = reward("cider-d", references=IDS, eos=eos)([[*ids, eos] for ids in SAMPLED], [7, 9, 8])
    assert plain.min() > 1
    torch = pytest.importorskip("torch")
    for batch in (sampled, sampled.tolist(), torch.tensor(sampled)):
        assert reward("cider-d", references=IDS, **arguments)(batch, ["7", 9, 8]).tolist() == plain.tolist()
    names = {"eos": "eos_token_id", "bos": "decoder_start_token_id", "pad": "pad_token_id"}
    if not isinstance(arguments.get("bos"), list):
        config = SimpleNamespace(**{names[name]: value for name, value in arguments.items()})
        assert reward("cider-d", references=IDS, generation=config)(sampled, [7, 9, 8]).tolist() == plain.tolist()
    labels = {id: [[*ids, eos, -100] for ids in many] for id, many in IDS.items()}
    assert reward("cider-d", references=labels, **arguments)(sampled, [7, 9, 8]).tolist() == plain.tolist()


def test_a_generation_config_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GenerationConfig(decoder_start_token_id=2, bos_token_id=0, eos_token_id=2, pad_token_id=1)
    plain = reward("cider-d", references=IDS, eos=2)([[*ids, 2] for ids in SAMPLED], [7, 9, 8])
    scorer = reward("cider-d", references=IDS, generation=config)
    assert scorer(lay_out([2, 0], 2, 1), [7, 9, 8]).tolist() == plain.tolist()


@pytest.mark.parametrize(
    ("arguments", "sampled", "sentence"),
    [
        ({"eos": 2, "pad": 1}, lay_out([2], 2, 1), "begins with the end token 2, .* bos=2"),
        ({"eos": 1}, lay_out([0], 1, 0), "begins with 0, which no reference contains; .* bos=0"),
        ({}, lay_out([], 1, 0), "ends with an id that no reference contains .0.; name the end token"),
        ({"pad": 0}, lay_out([], 1, 0), "ends with an id that no reference contains .1."),
        ({"eos": 1}, [[11, -5], [21, 22]], "candidate 0: the number -5 is not a token id"),
    ],
)
def test_an_unnamed_special_token_is_refused(arguments: dict[str, Any], sampled: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        reward("cider-d", references=IDS, **arguments)(sampled, [7, 9, 8][: len(sampled)])


def test_an_empty_caption_is_its_end() -> None:
    scorer = reward("bleu-1", references=IDS, eos=2, bos=2, pad=1)
    plain = reward("bleu-1", references=IDS, eos=2)([[2]], [7])
    for batch in ([[2, 2]], [[2, 1, 1]], [[2]], [[2, 2, 1]]):
        assert scorer(batch, [7]).tolist() == plain.tolist()
    assert plain[0] > 0


def test_a_batch_of_zeros_and_an_image_as_number_and_as_text() -> None:
    with pytest.warns(CapmeterWarning, match="all 2 rewards of a batch are 0"):
        reward("cider-d", references=IDS)([[21, 22], [11, 12]], [7, 9])
    scorer = reward("cider-d", references=REFERENCES)
    both = scorer(["A man rides a bike"] * 2, ["391895", 391895])
    assert both[0] == both[1] > 0
    assert reward("cider-d", references={"7": ["a dog"], "8": ["a cat"]})(["a dog"], np.array([7]))[0] > 0


def test_a_bert_s_tokenizer_has_its_start_and_end() -> None:
    bert = SimpleNamespace(bos_token_id=None, eos_token_id=None, cls_token_id=1, sep_token_id=2, pad_token_id=0)
    plain = reward("cider-d", references=IDS, eos=2)([[*ids, 2] for ids in SAMPLED], [7, 9, 8])
    encoded = {id: [[1, *ids, 2] for ids in many] for id, many in IDS.items()}
    for references in (IDS, encoded):
        sampled = lay_out([1], 2, 0)
        assert reward("cider-d", references=references, generation=bert)(sampled, [7, 9, 8]).tolist() == plain.tolist()


OBJECTS_OF = {"0": ["car"], "1": ["dog"], "2": ["cat", "bed"], "3": []}
TEXTS_OF = ["a car and a dog", "a dog", "a cat on a bed", "a blue kite"]
METRICS_OF_IMAGES = ["chair", "hallucination", "judge", "clipscore"]


@pytest.fixture(scope="module")
def rewards_of_images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A reward for each metric that reads something that belongs to an image."""
    folder = tmp_path_factory.mktemp("rewards")
    references = {image: [f"the image of {', '.join(names) or 'nothing'}"] for image, names in OBJECTS_OF.items()}
    (folder / "objects.json").write_text(json.dumps(OBJECTS_OF))
    questions = [
        {"id": k, "questions": [{"question": f"which of {k}?", "choices": ["A", "B"], "answer": "AB"[int(k) % 2]}]}
        for k in OBJECTS_OF
    ]
    (folder / "questions.json").write_text(json.dumps(questions))
    paths = dict(zip(OBJECTS_OF, pictures(folder, [(40, 32), (32, 40), (50, 50), (33, 37)]), strict=True))
    objects = f'objects="{folder / "objects.json"}"'
    with JudgeServer(lambda body, before: completion("A")).running() as server:
        task = folder / "quiz.yaml"
        task.write_text("prompt: '{candidate} {question} {choices}'\nask: question\nread: {choice: true}\n")
        judge = f'model=m,endpoint="{server.url}",task="{task}",questions="{folder / "questions.json"}"'
        arguments = {"chair": f"{objects},references=false", "hallucination": objects,
                     "judge": judge,
                     "clipscore": f'encoder="{tiny_clip(folder / "clip")}"'}  # fmt: skip
        yield {name: reward(f"{name}({of_metric})", references, images=paths) for name, of_metric in arguments.items()}


@pytest.mark.neural
@pytest.mark.meteor
@pytest.mark.parametrize("name", METRICS_OF_IMAGES)
@given(batch=st.lists(st.tuples(st.sampled_from(TEXTS_OF), st.integers(0, 3)), min_size=1, max_size=8))
@settings(max_examples=8, deadline=None)
def test_what_belongs_to_an_image_is_found_by_its_id(
    rewards_of_images: dict[str, Any], name: str, batch: list[tuple[str, int]]
) -> None:
    """In any order and with repeats each caption has the reward that it has alone."""
    scorer = rewards_of_images[name]
    complete = scorer([text for text, _ in batch], [image for _, image in batch])
    alone = [scorer([text], [image])[0] for text, image in batch]
    np.testing.assert_allclose(complete, alone, rtol=0, atol=1e-6 if name in ("clipscore", "hallucination") else 1e-12)


def test_a_reward_of_objects_knows_right_from_wrong(rewards_of_images: dict[str, Any]) -> None:
    assert rewards_of_images["chair"](["a dog", "a car", "a dog"], ["1", "0", 0]).tolist() == [0.0, 0.0, -1.0]


def test_trl_calls_a_function_of_columns() -> None:
    function = reward("cider-d", {"7": ["a brown dog runs"], "9": ["two cats sleep"]}).for_trl()
    expected = reward("cider-d", {"7": ["a brown dog runs"], "9": ["two cats sleep"]})(["a dog", "two cats"], [7, 9])
    messages = [[{"role": "assistant", "content": text}] for text in ("a dog", "two cats")]
    parts = [
        [{"role": "user", "content": "?"}, {"content": [{"type": "text", "text": t}]}] for t in ("a dog", "two cats")
    ]
    assert function.__name__ == "cider-d"
    for completions in (["a dog", "two cats"], messages, parts):
        rewards = function(prompts=["x", "y"], completions=completions, image_id=["7", 9], step=3)
        assert rewards == expected.tolist() and type(rewards[0]) is float
    other = reward("cider-d", {"7": ["a brown dog runs"]}).for_trl(image_id="image")
    assert other(completions=["a dog"], image=[7]) == [0.0]
    for wrong in ({"completions": ["a"]}, {"completions": [[3]], "image_id": [7]}, {"image_id": [7]},
                  {"completions": [[]], "image_id": [7]}, {"completions": [DEEP], "image_id": [7]}):  # fmt: skip
        with pytest.raises(InputError):
            function(**wrong)
