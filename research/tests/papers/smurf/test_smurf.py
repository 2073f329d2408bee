"""SMURF: Eq. 12 by hand, the published scores from the published components, constants that fit their encoder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.normalisation import NormalisationConstants, Scale, read_constants
from capmeter_research.papers.smurf.smurf import Smurf, fuse
from capmeter_research.papers.smurf.sparcs import Sparcs

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import InputError
from capmeter.evaluation.base import Measurement, RunContext
from capmeter.evaluation.registry import parse

UNIT = NormalisationConstants("invented", 10, "minilm", "minilm", Scale(0, 1), Scale(0, 1), Scale(0, 1))


def test_by_hand() -> None:
    # columns: typical; ungrammatical; wrong and stylish; exactly at the threshold; no style at all
    sparcs = np.array([0.5, 0.5, -3.0, -1.96, 0.5])
    mima = np.array([0.0, -2.96, 0.0, 0.0, 0.0])
    spurts = np.array([0.04, 0.04, 5.0, 0.04, -7.0])
    paper = fuse(sparcs, mima, spurts, UNIT)
    np.testing.assert_allclose(paper[:, 0], [2.5, 1.5, -3.0, 0.04, 0.5], atol=1e-12)
    np.testing.assert_allclose(paper[:, 1], [0, -1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(paper[:, 2], [2, 2, 6.96, 2, 0], atol=1e-12)
    released = fuse(sparcs, mima, spurts, UNIT, as_released=True)
    np.testing.assert_allclose(released[:, 0], [2.5 / 3, 0.5, -1.5, 0.04 / 3, 0.5 / 3], atol=1e-12)


def test_equals_the_published_scores_and_eq_12(shared: Path) -> None:
    shipped = np.load(shared / "oracles" / "smurf_shipped_and_fusion.npz")
    components = [shipped[f"shipped_{name}"] for name in ("SPARCS", "MIMA", "SPURTS")]
    released = fuse(*components, read_constants("paper"), as_released=True)
    np.testing.assert_allclose(released[:, 0], shipped["shipped_SMURF"], rtol=0, atol=1e-12)
    paper = fuse(*components, read_constants("paper"))
    np.testing.assert_allclose(paper[:, 0], shipped["fusion_paper_formula"], rtol=0, atol=1e-12)


def test_the_paper_s_constants_are_the_mean_and_spread_of_the_human_captions(shared: Path) -> None:
    shipped = np.load(shared / "oracles" / "smurf_shipped_and_fusion.npz")
    standard = read_constants("paper")
    for name, scale in (("SPARCS", standard.sparcs), ("MIMA", standard.mima), ("SPURTS", standard.spurts)):
        human = shipped[f"shipped_{name}"][::4]
        assert (round(human.mean(), 6), round(human.std(), 6)) == (scale.mean, scale.deviation)


def test_measures_from_the_scores_of_its_components() -> None:
    metric = Smurf(encoder="minilm")
    sparcs, mima, spurts = metric.required_metrics()
    assert (sparcs, mima, spurts) == (Sparcs(), Mima(encoder="minilm"), Spurts(encoder="minilm"))
    part = CaptionSet.from_captions([Caption("1", "1", "a dog", ("a dog",))])
    standard = read_constants("minilm")
    scores = {
        sparcs: {"score": np.array([standard.sparcs.mean])},
        mima: {"score": np.array([standard.mima.mean])},
        spurts: {"score": np.array([standard.spurts.mean])},
    }
    got = metric.measure(
        part, RunContext(scores=scores, measurements=dict.fromkeys(scores, Measurement(np.zeros((1, 1)))))
    ).values
    np.testing.assert_allclose(got, [[1.96, 0, 1.96, 0, 0, 0]], atol=1e-12)
    assert metric.columns == ("score", "G", "D", "sparcs", "mima", "spurts")


def test_constants_belong_to_their_encoder(tmp_path: Path) -> None:
    assert Smurf().constants == read_constants("paper")
    assert Smurf(encoder="distilbert-base-uncased+distilroberta-base").constants == read_constants("paper")
    assert Smurf(encoder="sentence-transformers/all-MiniLM-L6-v2").constants == read_constants("minilm")
    with pytest.raises(InputError, match=r"were estimated with .*distilbert.*; leave `standard` out .*capmeter"):
        Smurf(encoder="minilm", standard="paper").required_metrics()
    with pytest.raises(InputError, match="no normalisation constants are bundled for the encoder roberta; run "):
        Smurf(encoder="roberta").required_metrics()
    with pytest.raises(InputError, match=r"neither bundled normalisation constants .* nor a file"):
        Smurf(encoder="minilm", standard="nowhere.json").required_metrics()
    path = tmp_path / "mine.json"
    UNIT.save(path)
    assert Smurf(encoder="minilm", standard=str(path)).constants == UNIT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not normalisation constants"),
        ({"sparcs": {"mean": 0.1, "deviation": 0}}, "deviation above 0"),
        ({"mima": {"mean": float("nan"), "deviation": 1}}, "finite mean"),
        ({"mima": {"mean": 10**400, "deviation": 1}}, "finite mean"),
        ({"spurts": [1, 2]}, "finite mean"),
        ({"captions": None}, None),
    ],
)
def test_a_damaged_standard_is_refused(tmp_path: Path, change: dict[str, object], message: str | None) -> None:
    path = tmp_path / "standard.json"
    UNIT.save(path)
    content = {**json.loads(path.read_text()), **change}
    if message is None:
        del content["captions"]
        message = "captions is missing"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_constants(str(path))
    path.write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read_constants(str(path))


def test_name_is_parsed_back() -> None:
    metric = parse("smurf(encoder=minilm,as_released=true)")
    assert metric == Smurf(encoder="minilm", as_released=True)
    assert parse(str(metric)) == metric
    assert str(parse("smurf")) == "smurf"
    mixed = Smurf(encoder="bert+roberta")
    assert parse(str(mixed)) == mixed
    with pytest.raises(InputError, match="expected one encoder"):
        Smurf(encoder="minilm+")
