"""LCEval and NNEval: features, released features and network, networks from checkpoints, explanation."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.lceval.checkpoint import build_checkpoint, load_network
from capmeter_research.papers.lceval.features import FEATURES, GROUPS, NNEVAL, Features, select_features, unigram_recall
from capmeter_research.papers.lceval.feed_forward import DenseLayer, FeedForwardNetwork, read_released, sigmoid
from capmeter_research.papers.lceval.lceval import LcEval
from support.caption_sets import caption_set
from support.official_scores import official

import capmeter
from capmeter.core.errors import AssetError, InputError
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse
from capmeter.evaluation.runner import Evaluation, evaluate

LEXICAL = "precision-1+precision-2+precision-3+precision-4+unigram-recall+rouge-l"
ROWS = [
    ("a brown dog runs over the grass", ["the brown dog is running on grass .", "A dog runs in a field"]),
    ("a cat", ["two children play with a red ball", "children play outside"]),
    ("two children play with a ball", ["two children play with a red ball", "children play outside"]),
]


def save_network(
    folder: Path, features: tuple[str, ...] = FEATURES, hidden: tuple[int, ...] = (12,), **options: Any
) -> str:
    """A checkpoint with random weights."""
    rng = np.random.default_rng(0)
    widths = [len(features), *hidden, 2]
    layers = [DenseLayer(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in pairwise(widths)]
    options = {"pool": "max", "vectors": "minilm", "baseline": rng.random(len(features)), **options}
    build_checkpoint(FeedForwardNetwork(tuple(layers)).to_weights(), features, **options).save(folder)
    return str(folder)


# features


def test_the_features_are_the_sixteen_of_the_released_code_in_its_order(shared: Path) -> None:
    names = json.loads((shared / "oracles" / "lceval_checkpoint.json").read_text())["features_in_order"]
    short = [name.split("(")[0].lower().rstrip() for name in names]
    assert len(FEATURES) == len(names) == 16
    assert short[:4] == [f"ngram_prec{k}" for k in range(1, 5)]
    assert [FEATURES.index(name) for name in ("unigram-recall", "rouge-l", "meteor", "wmd", "spice", "cider-d")] == [
        short.index(name) for name in ("unigram_recall", "rouge_l", "meteor", "wmd_sim=exp", "spice", "cider")
    ]
    assert {len(GROUPS[name]) for name in ("lexical", "semantic", "syntactic")} == {8, 3, 5}


def test_ngram_precision_and_unigram_recall_equal_the_released_code(shared: Path) -> None:
    part = official(shared, "karp1000_s1").captions
    expected = np.load(shared / "oracles" / "lceval_ngram_features_karp1000_s1.npz")
    names = ("precision-1", "precision-2", "precision-3", "precision-4", "unigram-recall")
    features = Features(names)
    evaluation = Evaluation(tuple(set(features.metrics().values())))
    measured = evaluation.measure(part)
    context = RunContext(measurements=measured, scores={})
    matrix = features.compute(part, context)
    np.testing.assert_allclose(matrix[:, :4], expected["ngram_precision"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(matrix[:, 4], expected["unigram_recall_if_tokenised"], rtol=0, atol=1e-9)
    released = Features(names, as_released=True).compute(part, context)
    assert not released[:, 4].any()  # what the released code trained on
    assert (released[:, :4] == matrix[:, :4]).all()


def test_recall_and_precision_by_hand() -> None:
    part = caption_set([("a dog and a dog", ["a dog runs", "the dog"])])
    assert unigram_recall(part, "max").tolist() == [2 / 3]
    assert unigram_recall(part, "min").tolist() == [1 / 2]
    assert unigram_recall(part, "mean").tolist() == pytest.approx([(2 / 3 + 1 / 2) / 2])
    for pool, expected in (("max", 2 / 5), ("min", 1 / 5), ("mean", 1.5 / 5)):
        metric = LcEval(features=("precision-1",), learned=False, pool=pool)
        assert evaluate(part, [metric])[metric].items.array.tolist() == pytest.approx([expected])


def test_groups_and_features_can_be_named_and_switched() -> None:
    assert select_features("semantic+lexical") == select_features("sem-lex")
    assert str(parse("lceval(features=lexical+semantic)")) == "lceval(features=sem-lex)"
    assert str(parse("lceval(features=spice+cider-d)")) == "lceval(features=spice+cider-d)"
    assert str(parse("lceval(features=semantic+lexical+syntactic)")) == "lceval"
    assert parse("nneval").inputs == NNEVAL  # type: ignore[attr-defined]
    assert set(GROUPS["sem-lex"]) - set(NNEVAL) == {"mowe", "unigram-recall", "rouge-l"}
    with pytest.raises(InputError, match="unknown feature or group of features 'symantic'; did you mean semantic"):
        parse("lceval(features=symantic)")


def test_a_feature_is_the_score_of_its_metric_in_the_same_run(tmp_path: Path) -> None:
    part = caption_set(ROWS)
    name = "lceval(learned=false,features=rouge-l+cider-d+hwcm-lemma-3+hwcm-dep-2)"
    both = evaluate(part, [parse(name), parse("rouge-l"), parse("cider-d"), parse("hwcm(kind=lemma,n=3)")])
    parts = both[parse(name)].part_items
    for feature, metric in (("rouge-l", "rouge-l"), ("cider-d", "cider-d"), ("hwcm-lemma-3", "hwcm(kind=lemma,n=3)")):
        assert (parts[feature].array == both[parse(metric)].items.array).all()
    names = select_features("rouge-l+cider-d+hwcm-lemma-3+hwcm-dep-2")
    mean = np.mean([parts[feature].array for feature in names], axis=0)
    np.testing.assert_allclose(both[parse(name)].items.array, mean)


# the network


def test_the_released_network_gives_its_scores(shared: Path, tmp_path: Path) -> None:
    checkpoint = json.loads((shared / "oracles" / "lceval_checkpoint.json").read_text())
    vectors = np.array(checkpoint["test_X"])
    for step in ("8010", "9990"):
        path = tmp_path / f"{step}.json"
        path.write_text(json.dumps(checkpoint[step]))
        network = read_released(path)
        expected = np.array(checkpoint[f"test_scores_{step}"])
        np.testing.assert_allclose(network.score(vectors), expected, rtol=0, atol=1e-6)
    last_step = read_released(shared / "oracles" / "lceval_checkpoint.json")
    np.testing.assert_allclose(last_step.score(vectors), checkpoint["test_scores_9990"], rtol=0, atol=1e-6)


@pytest.mark.neural
def test_released_features_and_weights_give_the_metric(shared: Path) -> None:
    path = shared / "oracles" / "lceval_checkpoint.json"
    metric = LcEval(as_released=True, checkpoint=str(path))
    assert parse(str(metric)) == metric
    results = evaluate(caption_set(ROWS), [metric])
    parts = results[metric].part_items
    assert not parts["unigram-recall"].array.any()
    features = np.stack([parts[name].array for name in FEATURES], axis=1)
    np.testing.assert_allclose(results[metric].items.array, read_released(path).score(features), rtol=1e-12)
    assert "network:released@" in results[metric].signature


def test_hidden_layers_by_hand() -> None:
    first = DenseLayer(np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([0.5, 0.25]))
    last = DenseLayer(np.array([[1.0, 3.0], [0.0, -2.0]]), np.array([1.0, 0.5]))
    # h = max(0, (1 + 4 + .5, -1 + .25)) = (5.5, 0); z = (6.5, 17)
    network = FeedForwardNetwork((first, last))
    assert network.logit(np.array([1.0, 2.0])) == 17 - 6.5
    assert network.score(np.array([[1.0, 2.0]]))[0] == pytest.approx(1 / (1 + np.exp(-10.5)))
    again = FeedForwardNetwork.from_weights(network.to_weights())
    assert (again.logit(np.eye(2)) == network.logit(np.eye(2))).all()


def test_the_sigmoid_never_overflows() -> None:
    with np.errstate(all="raise"):
        assert sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]


def test_a_metric_rebuilt_from_its_checkpoint(tmp_path: Path) -> None:
    for names, hidden in ((LEXICAL, (12,)), (LEXICAL, ()), ("lexical", (5, 4))):
        features = select_features(names)
        folder = save_network(tmp_path / f"{names}-{len(hidden)}", features, hidden)
        metric = LcEval(features=features, checkpoint=folder)
        assert parse(str(metric)) == metric
        results = evaluate(caption_set(ROWS), [metric])
        parts = results[metric].part_items
        matrix = np.stack([parts[name].array for name in features], axis=1)
        np.testing.assert_allclose(results[metric].items.array, load_network(folder).network.score(matrix), rtol=1e-12)
        assert ((results[metric].items.array > 0) & (results[metric].items.array < 1)).all()


def test_splitting_and_merging_equals_the_whole(tmp_path: Path) -> None:
    features = select_features("rouge-l+cider-d+precision-1+hwcm-dep-2")
    metric = LcEval(features=features, checkpoint=save_network(tmp_path, features))
    both = caption_set(ROWS)
    evaluation = Evaluation((metric,)).with_collected_states(both)
    rows = np.concatenate([evaluation.measure(both.select([k]))[metric].values for k in range(len(both))])
    np.testing.assert_allclose(rows, evaluation.measure(both)[metric].values, rtol=1e-12)


@pytest.mark.parametrize("candidate", ["", "   ", "?!", "一只狗", "dog " * 200])
def test_hostile_captions_have_finite_scores(candidate: str, tmp_path: Path) -> None:
    features = select_features("lexical+syntactic")
    metric = LcEval(features=features, checkpoint=save_network(tmp_path, features))
    results = evaluate(caption_set([(candidate, ["a dog", ""]), ("a dog", ["a dog runs"])]), [metric])
    assert 0 <= results[metric].items["i0"] <= 1


# mistakes


def test_mistakes_are_said(tmp_path: Path) -> None:
    folder = save_network(tmp_path / "spice", ("spice",))
    with pytest.raises(InputError, match="has the features spice, but this metric has precision-1"):
        capmeter.score(candidates=["a"], references=[["b"]], metrics=f'lceval(checkpoint="{folder}")')
    with pytest.raises(InputError, match="no network is bundled for pool=max and the features rouge-l; train one"):
        capmeter.score(candidates=["a"], references=[["b"]], metrics="lceval(features=rouge-l)")
    with pytest.raises(InputError, match="as_released=true needs the released weights"):
        parse("lceval(as_released=true)")
    with pytest.raises(InputError, match="learned=false has no network"):
        parse("lceval(learned=false,checkpoint=x)")
    other = save_network(tmp_path / "mean", ("rouge-l",), pool="mean")
    with pytest.raises(InputError, match="was trained with pool=mean"):
        LcEval(features=("rouge-l",), checkpoint=other).required_metrics()
    glove = save_network(tmp_path / "glove", ("wmd",), vectors="glove.txt")
    with pytest.raises(InputError, match=r"was trained with vectors=glove.txt"):
        LcEval(features=("wmd",), checkpoint=glove).required_metrics()
    for text in ("{", "[]", '{"out_layer/out/W_out": [[1, 2]]}', '{"1": {}}'):
        path = tmp_path / "broken.json"
        path.write_text(text)
        with pytest.raises(AssetError, match="does not contain released weights"):
            read_released(path)


# explanation


@pytest.mark.parametrize("hidden", [(), (12,)])
def test_contributions_add_up_to_the_logit(hidden: tuple[int, ...], tmp_path: Path) -> None:
    features = select_features("lexical")
    metric = LcEval(features=features, checkpoint=save_network(tmp_path, features, hidden))
    evaluation = Evaluation((metric,)).with_collected_states(caption_set(ROWS))
    explained = evaluation.explain(caption_set(ROWS))[metric]
    logits = evaluation.measure(caption_set(ROWS))[metric].values[:, 1]
    trained = load_network(metric.checkpoint or "")
    for evidence, logit in zip(explained, logits, strict=True):
        contributions = evidence.contributions
        assert contributions is not None
        assert contributions.base == "the mean training caption"
        assert contributions.start == pytest.approx(float(trained.network.logit(trained.baseline)))
        assert contributions.start + sum(each[3] for each in contributions.inputs) == pytest.approx(logit, abs=1e-9)
        if not hidden:
            weights = trained.network.layers[0].weights
            slopes = weights[:, 1] - weights[:, 0]
            exact = slopes * (np.array([each[1] for each in contributions.inputs]) - trained.baseline)
            np.testing.assert_allclose([each[3] for each in contributions.inputs], exact, atol=1e-12)
