from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core import assets
from capmeter.core.errors import InputError
from capmeter.evaluation.base import CapmeterWarning, Metric
from capmeter.evaluation.registry import names, parse, parse_list
from capmeter.metrics.ngram.cider import CiderD

JUDGES = (
    *("clair", "clair-a", "fleur", "g-veval", "captionqa", "capeval", "caprl-qa", "vdcscore", "autodq", "dcscore"),
    *("faithscore", "caparena", "posh"),
)


def test_every_name_gives_a_metric_whose_text_form_parses_back() -> None:
    for name in names():
        text = {"mean": "mean(bleu-4,cider-d)", "combine": "combine(bleu-4,cider-d,weights=0.3+0.7)"}.get(name, name)
        text = f"{name}(model=some)" if name in JUDGES else text  # which have no default
        text = "judge(model=some,task=some)" if name == "judge" else text
        text = f"{name}(checkpoint=some)" if name == "regressor" else text
        metric = parse(text)
        assert isinstance(metric, Metric)
        assert (str(metric), metric.name) == (text, name)
        assert parse(str(metric)) == metric
        assert metric.SUMMARY and "\n" not in metric.SUMMARY


def test_a_metric_needs_the_extras_of_what_it_is_made_of() -> None:
    assert parse("bleu-4").extras == ()
    assert parse("hallucination").extras == ("meteor", "neural")
    assert parse("mean(bleu-4,spice)").extras == ("meteor",)
    assert parse("combine(mean(meteor,cider-d),bertscore,weights=1+2)").extras == ("meteor", "neural")


def test_what_is_missing_is_installed_by_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(assets.EXTRAS, "neural", ("no_such_module",))
    assert assets.missing_install_command("meteor,neural") == "pip install 'capmeter[neural]'"
    monkeypatch.setitem(assets.EXTRAS, "meteor", ("no_such_module",))
    assert assets.missing_install_command("meteor,neural") == "pip install 'capmeter[meteor,neural]'"
    assert assets.missing_install_command(None) is assets.missing_install_command("of another package") is None


def test_parameters_that_are_at_their_default_are_not_said() -> None:
    assert str(parse("cider-d( n = 4, sigma=6 )")) == "cider-d"
    assert str(parse("cider-d(sigma=5)")) == "cider-d(sigma=5.0)"


@given(st.floats(0.1, 99), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12))
def test_any_value_survives_the_text_form(sigma: float, idf: str) -> None:
    metric = CiderD(sigma=sigma, idf=idf)
    assert parse(str(metric)) == metric


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cider-dd", "did you mean cider-d"),
        ("bleu", "it is the bundle of bleu-1, bleu-2, bleu-3, bleu-4"),
        ("mean(coco)", "it is the bundle of bleu-1"),
        ("comet", "`bertscore` compares embeddings"),
        ("ROUGE-1", "captioning papers report `rouge-l`"),
        ("chrF", "for languages without spaces"),
        ("B@4", "BLEU-4 is `bleu-4`"),
        ("CHAIRs", "parts of `chair`"),
        ("mBLEU", "diversity over captions"),
        ("LPIPS", "scores images, not captions"),
        ("perplexity", "says nothing of the image"),
        ("meteorr", "did you mean meteor? (`capmeter list metrics` shows all)"),
        ("nothing-like-it", "known are: bleu-1"),
        ("cider-d(sigm=5)", "no parameter 'sigm'; did you mean sigma"),
        ("cider-d(sigma=wide)", "sigma=wide is not a number (its default is 6.0)"),
        ("cider-d(sigma)", "expected parameter=value"),
        ("cider-d(sigma=5,sigma=6)", "duplicate parameter 'sigma'"),
        ("cider-d(n=0)", "expected n from 1 to 8"),
        ("(n=1)", "is not a metric"),
        ("bleu-4(tokenizer=moses)", "tokenizer=moses is not ptb, whitespace"),
    ],
)
def test_mistakes_get_a_sentence(text: str, message: str) -> None:
    if text == "meteorr" and "meteor" not in names():
        pytest.skip("METEOR is not part of this build")
    with pytest.raises(InputError) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        *((f"Bleu_{n}", f"bleu-{n}") for n in (1, 2, 3, 4)),
        *((text, "bleu-4") for text in ("BLEU-4", "bleu4", "BLEU4", "BLEU_4", "BLEU@4")),
        *((text, "rouge-l") for text in ("ROUGE_L", "ROUGE", "rougeL", "Rouge-L", "rouge")),
        *((text, "cider-d") for text in ("CIDEr-D", "cider_d", "CIDErD")),
        *((("cider", "cider"), ("SPICE", "spice"), ("METEOR", "meteor"), ("BERTScore", "bertscore"))),
        *((("BERT-Score", "bertscore"), ("CLIP-S", "clipscore"), ("RefCLIP-S", "refclipscore"), ("PAC-S", "pac-s"))),
        *(("PACScore", "pac-s"), ("RefPACScore", "refpac-s")),
    ],
)
def test_names_as_papers_and_tools_write_them(typed: str, name: str) -> None:
    assert parse(typed).name == name


@pytest.mark.parametrize("typed", ["CIDEr", "CIDER", "Cider"])
def test_what_papers_call_cider_is_cider_d(typed: str) -> None:
    with pytest.warns(CapmeterWarning, match=f"{typed} is read as cider-d"):
        assert str(parse(typed)) == "cider-d"
    with pytest.warns(CapmeterWarning, match="in lower case"):
        assert [str(each) for each in parse_list(f"bleu-1,{typed}(sigma=5)")] == ["bleu-1", "cider-d(sigma=5.0)"]


def test_a_list_may_contain_bundles() -> None:
    orders = ["bleu-1", "bleu-2", "bleu-3", "bleu-4"]
    assert [str(each) for each in parse_list("BLEU")] == [str(each) for each in parse_list("bleu")] == orders
    assert [str(each) for each in parse_list("coco")] == [*orders, "meteor", "rouge-l", "cider-d", "spice"]
    assert [str(each) for each in parse_list("bleu-4,bleu,rouge-l")] == ["bleu-4", *orders[:3], "rouge-l"]
    with pytest.raises(InputError, match="duplicate metric bleu-4"):
        parse_list("bleu,bleu-4,Bleu_4")


def test_lists_split_at_commas_outside_brackets() -> None:
    assert [str(m) for m in parse_list("bleu-4, cider-d(n=2,sigma=5),rouge-l")] == [
        "bleu-4",
        "cider-d(n=2,sigma=5.0)",
        "rouge-l",
    ]
    with pytest.raises(InputError, match="duplicate metric"):
        parse_list("cider-d,cider-d(n=4)")
    with pytest.raises(InputError, match="no metric was given"):
        parse_list(" , ")
