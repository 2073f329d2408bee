"""umic and umic-c on a small UNITER: values by hand, one by one and in batches, and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.uniter_examples import SENTENCES, random_region_folder, random_regions, small_checkpoint

torch = pytest.importorskip("torch")

from capmeter_research.common.region_files import BoxRule, box_features, write_npz_regions  # noqa: E402
from capmeter_research.papers.umic.pairs import load_pair_encoder  # noqa: E402
from capmeter_research.papers.umic.uniter import PairLayout  # noqa: E402

import capmeter  # noqa: E402
from capmeter.core.errors import AssetError, InputError  # noqa: E402
from capmeter.evaluation.registry import parse  # noqa: E402
from capmeter.evaluation.runner import Evaluation  # noqa: E402
from capmeter.report.explain import explain  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("umic")
    small_checkpoint(folder / "model")
    random_region_folder(folder / "regions")
    return folder


def rows(candidates: tuple[str, ...] = SENTENCES) -> list[dict]:
    return [{"id": f"c{k}", "image_id": str(k % 4), "candidate": each} for k, each in enumerate(candidates)]


def captions(folder: Path, candidates: tuple[str, ...] = SENTENCES):
    return capmeter.load(rows(candidates), on_missing="keep", regions=folder / "regions")


def by_hand(folder: Path, sentence: str, image: int, head: str):
    """The head's output of one pair, without any of the scoring code but the network."""
    encoder = load_pair_encoder(str(folder / "model"), capmeter.Settings(device="cpu"))
    regions = BoxRule().select(random_regions(image))
    ids = encoder.tokenizer.ids([sentence])[0]
    layout = PairLayout.from_lengths(np.array([len(ids)]), np.array([len(regions)]))
    with torch.inference_mode():
        words = encoder.uniter.words(torch.tensor(ids), torch.from_numpy(layout.places))
        image = encoder.uniter.regions(torch.from_numpy(regions.features), torch.from_numpy(box_features(regions)))
        states = encoder.uniter.states(words, image, torch.from_numpy(layout.index), None)
        return encoder.uniter.head(encoder.uniter.pooled(states), head)[0].double().numpy()


def name(folder: Path, metric: str = "umic", **parameters) -> str:
    inside = ",".join([f'checkpoint="{folder / "model"}"', *(f"{k}={v}" for k, v in parameters.items())])
    return str(parse(f"{metric}({inside})"))


def test_scores_by_hand(folder: Path) -> None:
    results = capmeter.score(captions(folder), [name(folder), name(folder, "umic-c")])
    released = capmeter.score(captions(folder), name(folder, "umic-c", as_released="true"))
    spread = []
    for k, sentence in enumerate(SENTENCES):
        rank = by_hand(folder, sentence, k % 4, "rank_output")[0]
        no, yes = by_hand(folder, sentence, k % 4, "itm_output")
        umic, umic_c = (results[each].items[f"c{k}"] for each in (name(folder), name(folder, "umic-c")))
        assert umic == pytest.approx(1 / (1 + np.exp(-rank)), abs=1e-5)
        assert umic_c == pytest.approx(np.exp(yes) / (np.exp(no) + np.exp(yes)), abs=1e-5)
        assert next(iter(released.values())).items[f"c{k}"] == pytest.approx(1 / (1 + np.exp(-yes)), abs=1e-5)
        spread.append(umic)
    assert np.std(spread) > 0.01, "the scores must differ for these checks to mean anything"


def test_batches_parts_and_order_do_not_matter(folder: Path) -> None:
    many = tuple(" ".join(SENTENCES[k % 4].split()[: 1 + k % 7]) for k in range(60))
    expected = capmeter.score(captions(folder, many), name(folder))[name(folder)].items.array
    small = capmeter.score(captions(folder, many), name(folder), settings=capmeter.Settings(tokens=1, threads=2))
    np.testing.assert_allclose(small[name(folder)].items.array, expected, atol=1e-5)
    single = [capmeter.score(captions(folder, many).select([k]), name(folder))[name(folder)].score for k in range(60)]
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_the_picture_matters(folder: Path) -> None:
    other = [{**row, "image_id": str((int(row["image_id"]) + 1) % 4)} for row in rows()]
    scores = capmeter.score(captions(folder), name(folder))[name(folder)].items.array
    swapped = capmeter.load(other, on_missing="keep", regions=folder / "regions")
    assert (np.abs(capmeter.score(swapped, name(folder))[name(folder)].items.array - scores) > 1e-4).all()


def test_an_empty_candidate_scores_zero_and_is_noted(folder: Path) -> None:
    scores = capmeter.score(captions(folder, ("a dog", "", " ")), name(folder))[name(folder)]
    assert scores.items["c0"] > 0 and scores.items["c1"] == scores.items["c2"] == 0
    assert scores.notes["empty candidate"] == ["c1", "c2"]


def test_long_captions_are_cut_and_noted(folder: Path) -> None:
    scores = capmeter.score(captions(folder, ("a dog " * 30, "a dog " * 19)), name(folder))[name(folder)]
    assert scores.notes["caption truncated to the encoder's length"] == ["c0"]
    cut = by_hand(folder, "a dog " * 19, 0, "rank_output").item()  # 38 pieces with [CLS] and [SEP]: 40 positions
    assert scores.items["c0"] == pytest.approx(1 / (1 + np.exp(-cut)), abs=1e-5)


def test_boxes_are_chosen_by_the_rule(folder: Path) -> None:
    few = capmeter.score(captions(folder), name(folder, max_boxes=3, min_boxes=1))
    expected = capmeter.score(captions(folder), name(folder))
    assert np.abs(next(iter(few.values())).items.array - next(iter(expected.values())).items.array).max() > 1e-4


def test_signature(folder: Path) -> None:
    signature = capmeter.score(captions(folder), name(folder, max_boxes=36))[name(folder, max_boxes=36)].signature
    assert "boxes:conf>0.2, 10-36, most confident" in signature and "weights:uniter@" in signature
    half = capmeter.score(captions(folder), name(folder), settings=capmeter.Settings(device="cpu", precision="half"))
    assert "precision:bfloat16" in next(iter(half.values())).signature


def test_missing_regions_are_named_before_anything_runs(folder: Path) -> None:
    lacking = capmeter.load([{"image_id": "99", "candidate": "a dog"}], on_missing="keep", regions=folder / "regions")
    with pytest.raises(InputError, match=r"1 caption has no regions of their picture \(the first: 99\)"):
        capmeter.score(lacking, name(folder))
    without = capmeter.load([{"image_id": "1", "candidate": "a dog"}], on_missing="keep")
    with pytest.raises(InputError, match="--regions"):
        capmeter.score(without, name(folder))


def test_regions_of_another_detector(folder: Path, tmp_path: Path) -> None:
    write_npz_regions(tmp_path, [("0", random_regions(0, features=5))])
    lacking = capmeter.load([{"image_id": "0", "candidate": "a dog"}], on_missing="keep", regions=tmp_path)
    with pytest.raises(InputError, match=r"these regions have 5 features, but .* was trained with 12"):
        capmeter.score(lacking, name(folder))


def test_without_a_checkpoint_the_advice_is_given(folder: Path) -> None:
    with pytest.raises(AssetError, match="import-uniter"):
        capmeter.score(captions(folder), "umic(checkpoint=no-such-checkpoint)")


def test_parts_have_regions(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows()))
    parts = capmeter.open_parts(path, on_missing="keep", regions=folder / "regions", rows=2)
    in_parts = [capmeter.score(part.read().systems[""][1], name(folder))[name(folder)].items for part in parts]
    expected = capmeter.score(captions(folder), name(folder))[name(folder)].items
    assert {id: score for items in in_parts for id, score in items.items()} == pytest.approx(dict(expected), abs=1e-5)


def test_evidence_has_attention_over_regions(folder: Path) -> None:
    (explanations,) = explain(captions(folder), name(folder), ids=["c2"])
    evidence = explanations.evidence[name(folder)]
    assert evidence.candidate[:3] == ("a", "red", "ball")
    assert evidence.regions is not None and len(evidence.regions.boxes) == len(evidence.regions.weights) == 10
    assert sum(evidence.regions.weights) == pytest.approx(1.0)
    np.testing.assert_allclose(evidence.regions.boxes, BoxRule().select(random_regions(2)).boxes, atol=1e-6)


def test_pictures_are_embedded_once_per_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = parse(name(folder))
    encoder = load_pair_encoder(str(folder / "model"), capmeter.Settings())
    embedded = []
    original = type(encoder).embed
    monkeypatch.setattr(type(encoder), "embed", lambda self, *message: embedded.append(1) or original(self, *message))
    Evaluation((metric,)).measure(captions(folder, SENTENCES * 3))
    assert len(embedded) == 4
