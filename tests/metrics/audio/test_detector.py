"""The bundled detector of fluency errors: features, damage, and how well it tells errors that people marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.shared_files import read_rows

import capmeter
from capmeter.core.checkpoints import Checkpoint
from capmeter.core.errors import AssetError
from capmeter.meta.agreement import run
from capmeter.metrics.audio.detector import FluencyDetector, feature_indices, features, load_detector

FLUENT = ["a man speaks while birds chirp", "a dog barks loudly in the background", "rain is falling on a hard surface"]
FAULTY = [
    "a man speaks while birds chirp and a",
    "a dog barks barks loudly in the the background",
    "rain is falling on a hard",
]


def test_features_name_ends_and_repetitions() -> None:
    words = [("a", "DT"), ("dog", "NN"), ("barks", "VBZ"), ("barks", "VBZ"), ("and", "CC")]
    names = features(words)
    assert {"end1 and >", "twice VBZ", "repeated VB", "tags NN VBZ VBZ CC", "finite True False"} <= names
    indices = feature_indices(words, 1 << 10)
    assert (np.diff(indices) > 0).all() and indices.max() < 1 << 10


def test_faulty_captions_are_more_probable_errors() -> None:
    detector = load_detector("fluency")
    fluent, faulty = detector.probabilities(FLUENT), detector.probabilities(FAULTY)
    assert faulty.min() > fluent.max()
    assert detector.probabilities(["", "..."]).tolist() == [1, 1]
    together = detector.probabilities(FLUENT + FAULTY)
    assert together.tolist() == [detector.probabilities([text])[0] for text in FLUENT + FAULTY]


def test_it_is_the_default_and_other_weights_are_refused() -> None:
    scores = capmeter.score(candidates=FAULTY, references=[[text] for text in FLUENT], metrics="fer(threshold=0.1)")
    assert scores["fer(threshold=0.1)"].score == 1
    assert "detector:fluency@" in scores["fer(threshold=0.1)"].signature
    for weights in ({}, {"weights": np.zeros((2, 2), np.float32)}, {"weights": np.array([np.nan], np.float32)}):
        with pytest.raises(AssetError, match="fluency@"):
            FluencyDetector.from_checkpoint(Checkpoint("fluency", {"bias": 0.0}, weights))


def test_errors_that_people_marked(shared: Path) -> None:
    rows = read_rows(shared / "data" / "fluency723.jsonl.gz")
    labels = np.array([row["label"] for row in rows])
    values = load_detector("fluency").probabilities([row["text"] for row in rows])
    differences = values[labels == 1][:, None] - values[labels == 0][None, :]
    assert np.mean((differences > 0) + 0.5 * (differences == 0)) > 0.89
    assert (values[labels == 0] > 0.9).mean() < 0.01  # of fluent captions, which lose nearly all of their score
    assert (values[labels == 1] > 0.9).mean() > 0.6


COMBINED = "fense(metric=combine(sbert,sbert(pooling=mean),meteor,weights=0.385+0.385+0.23),threshold=0.8,penalty=0.4)"


@pytest.mark.slow
@pytest.mark.neural
@pytest.mark.meteor
@pytest.mark.usefixtures("meteor_index")
@pytest.mark.parametrize(
    ("metric", "name", "least"),
    [
        ("fense", "audiocaps_eval", 83.0),
        ("fense", "clotho_eval", 76.0),
        (COMBINED, "audiocaps_eval", 85.3),
        (COMBINED, "clotho_eval", 77.0),
    ],
)
def test_agreement_with_people(shared: Path, metric: str, name: str, least: float) -> None:
    (result,) = run(
        [metric], benchmark=name.replace("_", "-"), data=shared / "data" / f"{name}.jsonl.gz", sample=True, resamples=20
    ).results
    assert result.value is not None and result.value > least
