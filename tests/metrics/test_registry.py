from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.errors import InputError
from capmeter.metrics import availability
from capmeter.metrics.base import Metric
from capmeter.metrics.cider import CiderD
from capmeter.metrics.registry import METRICS, names, parse, parse_list
from capmeter.registry import Registry


def test_every_name_gives_a_metric_whose_text_form_parses_back() -> None:
    for name in names():
        text = {"mean": "mean(bleu-4,cider-d)", "combine": "combine(bleu-4,cider-d,weights=0.3+0.7)"}.get(name, name)
        text = f"{name}(model=some)" if name in ("clair", "fleur", "g-veval") else text  # which have no default
        text = f"{name}(checkpoint=some)" if name == "regressor" else text
        metric = parse(text)
        assert isinstance(metric, Metric)
        assert (str(metric), metric.name) == (text, name)
        assert parse(str(metric)) == metric
        assert metric.SUMMARY and "\n" not in metric.SUMMARY


def test_a_metric_needs_the_extras_of_what_it_is_made_of() -> None:
    assert parse("bleu-4").extras == ()
    assert parse("soft-spice").extras == ("meteor", "neural")
    assert parse("mean(bleu-4,spice)").extras == ("meteor",)
    assert parse("combine(mean(meteor,cider-d),bertscore,weights=1+2)").extras == ("meteor", "neural")


def test_what_is_missing_is_installed_by_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(availability.EXTRAS, "neural", ("no_such_module",))
    assert availability.availability("meteor,neural") == "pip install 'capmeter[neural]'"
    monkeypatch.setitem(availability.EXTRAS, "meteor", ("no_such_module",))
    assert availability.availability("meteor,neural") == "pip install 'capmeter[meteor,neural]'"
    assert availability.availability(None) is availability.availability("of another package") is None


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
        ("cider_d", "did you mean cider-d"),
        ("meteorr", "did you mean meteor"),
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


def test_a_name_that_is_planned_is_explained() -> None:
    later: Registry[Metric] = Registry(
        "metric",
        Metric,  # type: ignore[type-abstract]
        "capmeter.metrics",
        {},
        {"perfection": "of every caption"},
    )
    with pytest.raises(InputError, match=r"the metric perfection \(of every caption\) is planned, and not in this"):
        later.parse("Perfection")


def test_what_is_there_is_not_planned() -> None:
    assert not set(METRICS.planned()) & set(METRICS.names())
