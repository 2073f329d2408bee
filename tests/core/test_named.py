"""Named values: the text form and the value are one, whatever a parameter's type."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.core.errors import InputError
from capmeter.core.named import Named, parameters_of
from capmeter.core.registry import Entry, Registry


@dataclass(frozen=True, kw_only=True)
class Measure(Named):
    """The family that these tests name."""

    @property
    def name(self) -> str:
        return self.NAME


@dataclass(frozen=True, kw_only=True)
class Overlap(Measure):
    """A value whose name fixes a parameter."""

    SUMMARY = "overlap"
    n: Annotated[int, "longest n-gram"] = 4

    @property
    def name(self) -> str:
        return f"overlap-{self.n}"

    @property
    def implied_parameters(self) -> frozenset[str]:
        return frozenset({"n"})


@dataclass(frozen=True, kw_only=True)
class Consensus(Measure):
    NAME = "consensus"
    SUMMARY = "consensus"
    sigma: float = 6.0


@dataclass(frozen=True, kw_only=True)
class Combined(Measure):
    """Members are positional; the rest is not."""

    NAME = "combine"
    SUMMARY = "members combined"
    members: Annotated[tuple[Measure, ...], "what is combined"]
    weights: Annotated[tuple[float, ...] | None, "one for each"] = None
    standardised: bool = False


@dataclass(frozen=True, kw_only=True)
class Scaled(Measure):
    NAME = "scaled"
    SUMMARY = "one member, scaled"
    of: Measure
    by: float = 1.0
    beside: Measure | None = None


@dataclass(frozen=True, kw_only=True)
class Everything(Measure):
    NAME = "everything"
    SUMMARY = "a parameter of every type"
    text: str = "plain"
    maybe: str | None = None
    flag: bool = False
    whole: int = 3
    real: float = 0.5
    switch: bool | float = False
    loose: int | str = "x"
    choice: Literal["first", "second", "none"] = "first"
    order: Literal[1, 2] = 1
    words: tuple[str, ...] = ()
    numbers: tuple[float, ...] | None = None
    counts: tuple[int, ...] = (1, 2)
    choices: tuple[Literal["own-captions", "invalid"], ...] = ()


MEASURES: Registry[Measure] = Registry(
    "measure",
    Measure,
    "capmeter.none",
    {
        "overlap-2": Entry(f"{__name__}:Overlap", {"n": 2}),
        "overlap-4": Entry(f"{__name__}:Overlap", {"n": 4}),
        "consensus": Entry(f"{__name__}:Consensus", aliases=("c_d",)),
        "combine": Entry(f"{__name__}:Combined"),
        "scaled": Entry(f"{__name__}:Scaled"),
        "everything": Entry(f"{__name__}:Everything"),
    },
)
parse = MEASURES.parse

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(max_size=8) | st.sampled_from(["none", "true", "5", "1e5", "()", "a+b", 'a"b', "a\\", "f(x=1)", " "])
EVERYTHING = st.builds(
    Everything,
    text=TEXTS,
    maybe=st.none() | TEXTS,
    flag=st.booleans(),
    whole=st.integers(),
    real=NUMBERS,
    switch=st.booleans() | NUMBERS,
    loose=st.integers() | TEXTS,
    choice=st.sampled_from(["first", "second", "none"]),
    order=st.sampled_from([1, 2]),
    words=st.lists(TEXTS, max_size=3).map(tuple),
    numbers=st.none() | st.lists(NUMBERS, max_size=3).map(tuple),
    counts=st.lists(st.integers(), max_size=3).map(tuple),
    choices=st.lists(st.sampled_from(["own-captions", "invalid"]), max_size=3).map(tuple),
)
LEAVES = EVERYTHING | st.builds(Consensus, sigma=NUMBERS) | st.builds(Overlap, n=st.sampled_from([2, 4]))
NESTED = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(
            Combined,
            members=st.lists(inner, min_size=1, max_size=3).map(tuple),
            weights=st.none() | st.lists(NUMBERS, max_size=3).map(tuple),
            standardised=st.booleans(),
        )
        | st.builds(Scaled, of=inner, by=NUMBERS, beside=st.none() | inner)
    ),
    max_leaves=5,
)


@given(NESTED)
def test_every_value_is_read_back_from_its_text(value: Measure) -> None:
    assert parse(str(value)) == value
    assert str(parse(str(value))) == str(value)
    for key, parameter in parameters_of(type(value)).items():
        if not parameter.positional:
            assert isinstance(parameter.text(getattr(value, key)), str)


@given(st.lists(NESTED, min_size=1, max_size=3, unique=True))
def test_lists_are_read_back_too(values: list[Measure]) -> None:
    assert MEASURES.parse_list(",".join(map(str, values))) == values


@given(st.text(max_size=20), st.text('()",=+\\ aov4', max_size=20))
def test_no_text_is_more_than_wrong(inside: str, symbols: str) -> None:
    for text in (inside, f"combine({inside})", f"combine({symbols})", f"everything(words={symbols})"):
        try:
            result = MEASURES.parse_list(text)
        except InputError:
            continue
        assert MEASURES.parse_list(",".join(map(str, result))) == result


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("combine(members=none)", "combine(members=none)"),
        ("combine(overlap-4,consensus)", "combine(overlap-4,consensus)"),
        (
            "combine( overlap-4 , C_D( sigma = 5 ), weights=0.3+0.7, standardised=TRUE )",
            "combine(overlap-4,consensus(sigma=5.0),weights=0.3+0.7,standardised=true)",
        ),
        ("combine(members=overlap-2+consensus(sigma=5))", "combine(overlap-2,consensus(sigma=5.0))"),
        ("combine(combine(overlap-2),weights=1e16)", "combine(combine(overlap-2),weights=1e16)"),
        ("scaled(consensus,by=2)", "scaled(consensus,by=2.0)"),
        ("scaled(of=consensus,beside=overlap-2)", "scaled(consensus,beside=overlap-2)"),
        ("everything(choices=own-captions+invalid,words=a+b)", "everything(words=a+b,choices=own-captions+invalid)"),
        ("everything(choices=none,counts=none)", "everything(counts=none)"),
        ('everything(words="none",maybe="none",loose="5")', 'everything(maybe="none",loose="5",words="none")'),
        ("everything(numbers=())", "everything(numbers=())"),
        ("everything(numbers=none,text=f(x=1))", 'everything(text="f(x=1)")'),
        ("everything(choice=none,order=2)", "everything(choice=none,order=2)"),
    ],
)
def test_other_ways_to_write_a_value(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("everything(whole=4.0)", "whole=4.0 is not a whole number (its default is 3)"),
        ('everything(whole="4")', "is not a whole number"),
        ("everything(real=nan)", "real=nan is not a number"),
        ("everything(real=1e999)", "real=1e999 is not a number"),
        ("everything(flag=yes)", "flag=yes is not true or false"),
        ("everything(switch=on)", "switch=on is not true, false or a number"),
        ("everything(choice=third)", "choice=third is not first, second or none"),
        ("everything(choices=invalid+own)", "choices=invalid+own is not own-captions or invalid (several joined by +)"),
        ("everything(counts=1+x)", "counts=1+x is not a whole number (several joined by +)"),
        ("everything(counts=1+)", "counts=1+ is not"),
        ("everything(tex=5)", "everything has no parameter 'tex'; did you mean text?"),
        ("everything(text=)", "expected parameter=value"),
        ("everything(consensus)", "cannot read 'consensus' in the brackets of everything; expected parameter=value"),
        ("everything(text=a,text=b)", "duplicate parameter 'text'"),
        ("overlap-4(n=4)", "overlap-4 has no parameter 'n'; its parameters are: none"),
        ("combine", "combine requires members; give it in parentheses"),
        ("combine(overlap-4,members=consensus)", "duplicate parameter 'members'"),
        ("combine(overlap-4,consensos)", "unknown measure 'consensos'; did you mean consensus"),
        ("combine(overlap-4,consensus(sigm=5))", "consensus has no parameter 'sigm'"),
        ("scaled(consensus,overlap-4)", "takes no unnamed value 'overlap-4'"),
        ("combine(overlap-4", "is not a measure"),
        ("combine(overlap-4))", "brackets or quotation marks that do not match"),
        ('everything(text="a)', "brackets or quotation marks that do not match"),
        ("4", 'the text "4" is not a measure; expected a name, or name(parameter=value,…)'),
    ],
)
def test_mistakes_get_a_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"whole": 4.5}, "everything: whole=4.5 is not a whole number"),
        ({"whole": True}, "whole=True is not a whole number"),
        ({"real": float("inf")}, "real=inf is not a number"),
        ({"flag": 1}, "flag=1 is not true or false"),
        ({"text": None}, "text=None is not text"),
        ({"choice": "third"}, "choice=third is not first, second or none"),
        ({"choices": ["own"]}, "is not own-captions or invalid"),
    ],
)
def test_values_are_checked_when_they_are_made(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Everything(**given)
    assert message in str(caught.value)


def test_equal_values_have_one_text() -> None:
    output = Everything(real=5, numbers=[1, np.float64(0.5)], counts=[np.int64(7)])
    assert output == Everything(real=5.0, numbers=(1.0, 0.5), counts=(7,))
    assert str(output) == "everything(real=5.0,numbers=1.0+0.5,counts=7)"


def test_parameters_say_what_they_are() -> None:
    names = parameters_of(Combined) | parameters_of(Everything) | parameters_of(Overlap)
    assert names["n"].to_dict() == {"type": "a whole number", "choices": [], "default": "4", "help": "longest n-gram"}
    assert (names["members"].help, names["members"].expected) == ("what is combined", "measures")
    assert names["members"].to_dict()["default"] is None
    assert names["choices"].choices == ("own-captions", "invalid")
    assert names["switch"].expected == "true, false or a number"
    assert names["weights"].expected == "a number (several joined by +) or none"


def test_annotations_need_not_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module without `from __future__ import annotations` has classes for annotations, not their names."""
    module = types.ModuleType("plain_annotations")
    vars(module).update({"Measure": Measure, "dataclass": dataclass, "__name__": __name__})
    source = (
        "@dataclass(frozen=True, kw_only=True)\nclass Plain(Measure):\n    NAME = 'plain'\n"
        "    n: int = 1\n    flag: bool = False\n    none: 'int | None' = 2"
    )
    exec(compile(source, "plain.py", "exec", dont_inherit=True), vars(module))
    plain = module.Plain
    assert plain.__annotations__["n"] is int
    monkeypatch.setitem(sys.modules, "plain_annotations", module)
    registry = Registry("measure", Measure, "capmeter.none", {"plain": Entry("plain_annotations:Plain")})
    value = registry.parse("plain(n=3,flag=true,none=none)")
    assert vars(value) == {"n": 3, "flag": True, "none": None}


def test_a_class_that_is_no_dataclass_is_refused() -> None:
    class Careless(Measure):
        NAME = "careless"
        n: int = 3

    with pytest.raises(InputError, match=r"Careless\.n is not a field; decorate the class with @dataclass"):
        parameters_of(Careless)
