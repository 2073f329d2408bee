"""The prompts are those of the released code, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from capmeter.captions.model import Caption, CaptionSet
from capmeter.errors import InputError
from capmeter.metrics.judge.clair import Clair
from capmeter.metrics.judge.fleur import Fleur
from capmeter.metrics.judge.g_veval import GVEval
from capmeter.metrics.judge.prompts import names, template
from capmeter.metrics.registry import parse

CAPTIONS = CaptionSet.from_captions([Caption("1", "1", "a {candidate} dog", ("one dog", "a puppy {references}"))])


def test_clairs_prompt() -> None:
    question = Clair(model="m").questions(CAPTIONS)[0]
    assert question.text == (
        "You are trying to tell if a candidate set of captions is describing the same image as a reference set of "
        "captions.\nCandidate set:\n- a {candidate} dog\n\nReference set:\n- one dog\n- a puppy {references}\n\n"
        "On a precise scale from 0 to 100, how likely is it that the candidate set is describing the same image as the "
        'reference set? (JSON format, with a key "score", value between 0 and 100, and a key "reason" with a string '
        "value.)\n"
    )
    assert question.role == "user" and not question.alternatives and question.picture is None


def test_fleurs_prompts() -> None:
    head = (
        "Your task is to evaluate and rate the caption on a scale of 0.0 to 1.0 based on the given Grading Criteria. "
        "(Print Real Number Score ONLY)\n\nGrading Criteria:\n\n0.0: The caption does not describe the image at all.\n"
        "1.0: The caption accurately and clearly describes the image.\n\n"
    )
    last = "Score(Choose a rating from 0.0 to 1.0):"
    assert Fleur(model="m").prompt.filled("a dog", "") == f"{head}Caption: a dog\n\n{last}"
    shown = Fleur(model="m", references=True)
    text = shown.prompt.filled("a dog", shown.references_text(["x", "y"]))
    assert text == (
        f"{head.replace('rate the caption', 'rate the candidate caption')}Reference Captions: x\ny\n\n"
        f"Candidate Caption: a dog\n\n{last}"
    )
    assert Fleur(model="m").needs == {"image"} and shown.needs == {"image", "references"}


@pytest.mark.parametrize(("setting", "needs"), [("combined", 2), ("ref-free", 1), ("ref-only", 1)])
def test_g_vevals_prompts(setting: str, needs: int) -> None:
    metric = parse(f"g-veval(model=m,setting={setting})")
    assert isinstance(metric, GVEval) and len(metric.needs) == needs
    text = metric.prompt.filled("a dog", metric.references_text(["x", "y"]))
    assert "Generated captions:\na dog\n\nResponse Format:" in text and "The final score is ${{score}}$." in text
    assert ("Reference captions:\n'x'; 'y\n" in text) == ("references" in metric.needs)
    assert metric.prompt.role == ("system" if setting == "ref-only" else "user")


def test_every_template_names_its_source() -> None:
    assert names() == ["clair", "fleur", "g-veval-combined", "g-veval-ref-free", "g-veval-ref-only", "reffleur"]
    assert all("github.com/" in template(name).source for name in names())


def test_a_users_own_template(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("source: me\ntokens: 9\n---\nRate {candidate} against {references}\n")
    metric = Clair(model="m", template=str(path))
    assert metric.questions(CAPTIONS)[0].text == "Rate a {candidate} dog against - one dog\n- a puppy {references}"
    path.with_name("none.txt").write_text("no head")
    with pytest.raises(InputError, match="expected a head"):
        _ = Clair(model="m", template=str(path.with_name("none.txt"))).prompt
    with pytest.raises(InputError, match="nor one of clair, fleur"):
        _ = Clair(model="m", template="nothing").prompt


def test_a_judge_needs_a_model() -> None:
    with pytest.raises(InputError, match="clair requires model"):
        parse("clair")
    with pytest.raises(InputError, match="model's name is empty"):
        parse('clair(model=" ")')
