"""umic and umic-c on a small UNITER: values by hand, one by one and in batches, and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from uniterexamples import SENTENCES, drawn_folder, drawn_regions, small_checkpoint

torch = pytest.importorskip("torch")

import capmeter  # noqa: E402
from capmeter.encoders.pairs import load_pair_encoder  # noqa: E402
from capmeter.encoders.uniter import Layout  # noqa: E402
from capmeter.errors import AssetError, InputError  # noqa: E402
from capmeter.images.region_npz import write_npz_regions  # noqa: E402
from capmeter.images.regions import BoxRule  # noqa: E402
from capmeter.metrics.evaluation import Evaluation  # noqa: E402
from capmeter.metrics.registry import parse  # noqa: E402
from capmeter.report.explain import explain  # noqa: E402


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("umic")
    small_checkpoint(folder / "model")
    drawn_folder(folder / "regions")
    return folder


def rows(candidates: tuple[str, ...] = SENTENCES) -> list[dict]:
    return [{"id": f"c{k}", "image_id": str(k % 4), "candidate": each} for k, each in enumerate(candidates)]


def captions(place: Path, candidates: tuple[str, ...] = SENTENCES):
    return capmeter.load(rows(candidates), on_missing="keep", regions=place / "regions")


def by_hand(place: Path, sentence: str, image: int, head: str):
    """The head's output of one pair, without any of the scoring code but the network."""
    encoder = load_pair_encoder(str(place / "model"), capmeter.Settings(device="cpu"))
    regions = drawn_regions(image).chosen(BoxRule())
    ids = encoder.tokenizer.ids([sentence])[0]
    layout = Layout.of(np.array([len(ids)]), np.array([len(regions)]))
    with torch.inference_mode():
        words = encoder.uniter.words(torch.tensor(ids), torch.from_numpy(layout.places))
        seen = encoder.uniter.regions(torch.from_numpy(regions.features), torch.from_numpy(regions.positions))
        states = encoder.uniter.states(words, seen, torch.from_numpy(layout.index), None)
        return encoder.uniter.head(encoder.uniter.pooled(states), head)[0].double().numpy()


def name(place: Path, metric: str = "umic", **parameters) -> str:
    inside = ",".join([f'checkpoint="{place / "model"}"', *(f"{k}={v}" for k, v in parameters.items())])
    return str(parse(f"{metric}({inside})"))


def test_scores_by_hand(place: Path) -> None:
    results = capmeter.score(captions(place), [name(place), name(place, "umic-c")])
    released = capmeter.score(captions(place), name(place, "umic-c", as_released="true"))
    spread = []
    for k, sentence in enumerate(SENTENCES):
        rank = by_hand(place, sentence, k % 4, "rank_output")[0]
        no, yes = by_hand(place, sentence, k % 4, "itm_output")
        umic, umic_c = (results[each].items[f"c{k}"] for each in (name(place), name(place, "umic-c")))
        assert umic == pytest.approx(1 / (1 + np.exp(-rank)), abs=1e-5)
        assert umic_c == pytest.approx(np.exp(yes) / (np.exp(no) + np.exp(yes)), abs=1e-5)
        assert next(iter(released.values())).items[f"c{k}"] == pytest.approx(1 / (1 + np.exp(-yes)), abs=1e-5)
        spread.append(umic)
    assert np.std(spread) > 0.01, "the scores must differ for these checks to mean anything"


def test_batches_parts_and_order_do_not_matter(place: Path) -> None:
    many = tuple(" ".join(SENTENCES[k % 4].split()[: 1 + k % 7]) for k in range(60))
    whole = capmeter.score(captions(place, many), name(place))[name(place)].items.array
    small = capmeter.score(captions(place, many), name(place), settings=capmeter.Settings(tokens=1, threads=2))
    np.testing.assert_allclose(small[name(place)].items.array, whole, atol=1e-5)
    single = [capmeter.score(captions(place, many).select([k]), name(place))[name(place)].score for k in range(60)]
    np.testing.assert_allclose(single, whole, atol=1e-5)


def test_the_picture_matters(place: Path) -> None:
    other = [{**row, "image_id": str((int(row["image_id"]) + 1) % 4)} for row in rows()]
    mine = capmeter.score(captions(place), name(place))[name(place)].items.array
    swapped = capmeter.load(other, on_missing="keep", regions=place / "regions")
    assert (np.abs(capmeter.score(swapped, name(place))[name(place)].items.array - mine) > 1e-4).all()


def test_an_empty_candidate_scores_zero_and_is_noted(place: Path) -> None:
    scores = capmeter.score(captions(place, ("a dog", "", " ")), name(place))[name(place)]
    assert scores.items["c0"] > 0 and scores.items["c1"] == scores.items["c2"] == 0
    assert scores.notes["empty candidate"] == ["c1", "c2"]


def test_long_captions_are_cut_and_noted(place: Path) -> None:
    scores = capmeter.score(captions(place, ("a dog " * 30, "a dog " * 19)), name(place))[name(place)]
    assert scores.notes["caption truncated to the encoder's length"] == ["c0"]
    cut = by_hand(place, "a dog " * 19, 0, "rank_output").item()  # 38 pieces with [CLS] and [SEP]: 40 positions
    assert scores.items["c0"] == pytest.approx(1 / (1 + np.exp(-cut)), abs=1e-5)


def test_boxes_are_chosen_by_the_rule(place: Path) -> None:
    few = capmeter.score(captions(place), name(place, max_boxes=3, min_boxes=1))
    whole = capmeter.score(captions(place), name(place))
    assert np.abs(next(iter(few.values())).items.array - next(iter(whole.values())).items.array).max() > 1e-4


def test_signature(place: Path) -> None:
    signature = capmeter.score(captions(place), name(place, max_boxes=36))[name(place, max_boxes=36)].signature
    assert "boxes:conf>0.2, 10-36, most confident" in signature and "weights:uniter@" in signature
    half = capmeter.score(captions(place), name(place), settings=capmeter.Settings(device="cpu", precision="half"))
    assert "precision:bfloat16" in next(iter(half.values())).signature


def test_missing_regions_are_named_before_anything_runs(place: Path) -> None:
    lacking = capmeter.load([{"image_id": "99", "candidate": "a dog"}], on_missing="keep", regions=place / "regions")
    with pytest.raises(InputError, match=r"1 captions have no regions of their picture \(the first: 99\)"):
        capmeter.score(lacking, name(place))
    without = capmeter.load([{"image_id": "1", "candidate": "a dog"}], on_missing="keep")
    with pytest.raises(InputError, match="--regions"):
        capmeter.score(without, name(place))


def test_regions_of_another_detector(place: Path, tmp_path: Path) -> None:
    write_npz_regions(tmp_path, [("0", drawn_regions(0, features=5))])
    lacking = capmeter.load([{"image_id": "0", "candidate": "a dog"}], on_missing="keep", regions=tmp_path)
    with pytest.raises(InputError, match=r"these regions have 5 features, but .* was trained with 12"):
        capmeter.score(lacking, name(place))


def test_without_a_checkpoint_the_advice_is_given(place: Path) -> None:
    with pytest.raises(AssetError, match="import-uniter"):
        capmeter.score(captions(place), "umic(checkpoint=no-such-checkpoint)")


def test_streams_and_systems_have_regions(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows()))
    streamed = capmeter.stream(path, on_missing="keep", regions=place / "regions", rows=2)
    whole = capmeter.score(captions(place), name(place))[name(place)].items
    assert dict(capmeter.score(streamed, name(place))[name(place)].items) == pytest.approx(dict(whole), abs=1e-5)


def test_evidence_has_attention_over_regions(place: Path) -> None:
    (found,) = explain(captions(place), name(place), ids=["c2"])
    evidence = found.evidence[name(place)]
    assert evidence.candidate[:3] == ("a", "red", "ball")
    assert evidence.regions is not None and len(evidence.regions.boxes) == len(evidence.regions.weights) == 10
    assert sum(evidence.regions.weights) == pytest.approx(1.0)
    np.testing.assert_allclose(evidence.regions.boxes, drawn_regions(2).chosen(BoxRule()).boxes, atol=1e-6)


def test_pictures_are_embedded_once_per_part(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = parse(name(place))
    encoder = load_pair_encoder(str(place / "model"), capmeter.Settings())
    embedded = []
    original = type(encoder).embed
    monkeypatch.setattr(type(encoder), "embed", lambda self, *given: embedded.append(1) or original(self, *given))
    Evaluation((metric,)).measure(captions(place, SENTENCES * 3))
    assert len(embedded) == 4
