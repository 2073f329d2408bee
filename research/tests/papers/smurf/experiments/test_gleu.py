"""GLEU of corrections: by hand, at its limits, and as a baseline of one benchmark alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from capmeter_research.papers.smurf.experiments.gleu import sentence_gleu
from support.command_line import capmeter

from capmeter.core.errors import InputError, ProtocolError
from capmeter.judgments.builders import EXPECTED_WINS
from capmeter.meta.agreement import run
from capmeter.meta.reference_curves import reference_curve
from capmeter.stats.correlation import pearson, spearman

SOURCE = "she go to the school yesterday"
REFERENCE = "she went to school yesterday"


def test_by_hand() -> None:
    # C ∩ R: she went to yesterday = 4 of 6; "the school" is left as in the source: "the" is punished (1-grams 4+1-1)
    candidate = "she went to the school yesterday"
    # 1-grams: she went to school yesterday = 5, of S \ R: the = 1, so 4/6
    # 2-grams: she-went, went-to, school-yesterday = 3; of S \ R: to-the, the-school = 2, so 1/5
    # 3-grams: she-went-to = 1; of S \ R: to-the-school, the-school-yesterday = 2, so 0, taken as 1: 1/4
    # 4-grams: none; 0, taken as 1: 1/3
    precision = (4 / 6 * 1 / 5 * 1 / 4 * 1 / 3) ** 0.25
    assert sentence_gleu(SOURCE, candidate, REFERENCE) == pytest.approx(precision, abs=1e-12)


def test_a_correction_is_better_than_its_source() -> None:
    assert sentence_gleu(SOURCE, REFERENCE, REFERENCE) == 1
    assert sentence_gleu(SOURCE, SOURCE, REFERENCE) < sentence_gleu(SOURCE, "she went to the school", REFERENCE) < 1


def test_short_and_empty() -> None:
    assert sentence_gleu("a b", "", "a b c") == 0
    assert sentence_gleu("a b", "", "") == 1
    assert sentence_gleu("Hi", "Hi", "Hi") == 1
    # the brevity penalty: exp(1 - 4 / 2); 1-grams 2/2, 2-grams 1/1, none of 3 and 4
    assert sentence_gleu("x", "a b", "a b c d") == pytest.approx(math.exp(-1), abs=1e-12)


def test_baseline_of_conll14(tmp_path: Path) -> None:
    path = tmp_path / "sentences.jsonl"
    better = {"AMU", "CAMB"}
    rows = [
        {
            "sent_id": k,
            "source": SOURCE,
            "systems": {name: REFERENCE if name in better else SOURCE for name in EXPECTED_WINS},
            "references": [REFERENCE],
            "reference_sets": {"one": REFERENCE, "two": "yesterday she went to school"},
        }
        for k in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = run("gleu,gleu(references=protocol),bleu-1", benchmark="conll14", data=path, resamples=10)
    scores = dict(zip(report.judgments.names, report.items["gleu(references=protocol)"].tolist(), strict=True))
    assert scores["AMU"] == scores["CAMB"] == 1 and scores["IPN"] == sentence_gleu(SOURCE, SOURCE, REFERENCE)
    every = dict(zip(report.judgments.names, report.items["gleu"].tolist(), strict=True))
    assert every["AMU"] == (1 + sentence_gleu(SOURCE, REFERENCE, "yesterday she went to school")) / 2
    assert report["gleu"].signature.startswith("gleu|capmeter:") and report["bleu-1"].value is not None
    with pytest.raises(InputError, match="has no parameter 'reference'; did you mean references"):
        run("gleu(reference=protocol)", benchmark="conll14", data=path)
    rows[0]["reference_sets"] = ["a list"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match="reference_sets"):
        run("gleu", benchmark="conll14", data=path)


def test_curve_over_references(tmp_path: Path) -> None:
    path, sets = (
        tmp_path / "sentences.jsonl",
        {"one": REFERENCE, "two": "yesterday she went to school", "three": SOURCE},
    )
    texts = list(sets.values())
    outputs = {name: " ".join(texts[k % 3].split()[: 2 + k % 4]) for k, name in enumerate(EXPECTED_WINS)}
    row = {"sent_id": 0, "source": SOURCE, "systems": outputs, "references": [REFERENCE], "reference_sets": sets}
    path.write_text(json.dumps(row) + "\n")
    total = run("gleu", benchmark="conll14", data=path, resamples=10)
    curve = reference_curve(total.judgments, "gleu", (1, 3), repeats=8)
    one, every = curve
    assert (every.low, every.high) == pytest.approx([total["gleu"].value] * 2)
    assert one.low < one.high  # which reference was sampled matters
    with pytest.raises(InputError, match="from 1 to 1, as many as gleu\\(references=protocol\\) can see"):
        reference_curve(total.judgments, "gleu(references=protocol)", (2,))
    with pytest.raises(InputError, match="from 1 to 1, as many as bleu-1, gleu can see"):
        reference_curve(total.judgments, "gleu,bleu-1", (3,))


def test_other_benchmarks_have_no_source(tmp_path: Path) -> None:
    path = tmp_path / "rated.jsonl"
    row = {"candidate": "a dog", "references": ["a dog"]}
    path.write_text("".join(json.dumps({**row, "image_id": str(k), "human": [k]}) + "\n" for k in range(3)))
    with pytest.raises(ProtocolError, match="rated has no source sentences, which gleu needs"):
        run("gleu", benchmark="rated", data=path)
    done = capmeter("meta", "-b", "rated", "-d", path, "-m", "gleu")
    assert done.returncode == 1 and "rated has no source sentences, which gleu needs" in " ".join(done.stderr.split())
    done = capmeter("meta", "-b", "rated", "-d", path, "-m", "gleu(n=3)")
    assert done.returncode == 2 and "has no parameter 'n'" in " ".join(done.stderr.replace("│", " ").split())


def test_gleu_ranks_corrections(shared: Path) -> None:
    """Its r comes within .7 of the published one, its ρ does not; both are what docs/benchmarks.md says."""
    data = shared / "data/conll14_gec_sentences.jsonl.gz"
    result = run("gleu,gleu(references=protocol)", benchmark="conll14", data=data, resamples=2)
    assert (result["gleu"].n, result.find("published", "gleu").value) == (13, 85.2)
    assert result["gleu"].value == pytest.approx(80.22, abs=0.01)
    assert result["gleu(references=protocol)"].value == pytest.approx(72.53, abs=0.01)
    pearson = run("gleu", benchmark="conll14", data=data, protocol="napoles2016-pearson", resamples=2)
    assert pearson["gleu"].value == pytest.approx(83.1, abs=0.05)
    assert pearson.find("published", "gleu").value == 83.8


# M² of the systems against NUCLE's two annotators and against all 20: Sakaguchi et al. 2016, keisks/reassess-gec
M2 = {
    "AMU": (0.3502, 0.5153),
    "CAMB": (0.3735, 0.5663),
    "CUUI": (0.3610, 0.5208),
    "IITB": (0.0607, 0.0917),
    "IPN": (0.0728, 0.1781),
    "NTHU": (0.2998, 0.4388),
    "PKU": (0.2518, 0.4092),
    "POST": (0.3052, 0.4785),
    "RAC": (0.2796, 0.4385),
    "SJTU": (0.1530, 0.2667),
    "UFC": (0.0798, 0.0948),
    "UMC": (0.2517, 0.4171),
    "INPUT": (0.0, 0.0),
}


@pytest.mark.parametrize(("annotators", "rho", "r"), [(0, 0.692, 0.627), (1, 0.648, 0.557)])
def test_published_m2_has_the_rho_of_twenty_annotators(annotators: int, rho: float, r: float) -> None:
    """docs/benchmarks.md: the published ρ of .648 is M² against all 20; its r of .641 is not theirs."""
    scores = np.array([M2[system][annotators] for system in EXPECTED_WINS])
    wins = np.array(list(EXPECTED_WINS.values()))
    assert spearman(wins, scores) == pytest.approx(rho, abs=5e-4)
    assert pearson(wins, scores) == pytest.approx(r, abs=5e-4)
