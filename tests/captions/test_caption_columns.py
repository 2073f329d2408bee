"""Captions column by column are the captions one by one."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capmeter.captions.caption_columns import CaptionColumns
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.events import Events, VideoEvents
from capmeter.captions.text_checks import normalise_captions
from capmeter.core.errors import InputError

TEXTS = st.sampled_from(["", "a dog", "a cafe\u0301", "a caf\u00e9", "two dogs"])
EVENTS = st.sampled_from([None, VideoEvents(Events(((0.0, 1.0),), ("a cafe\u0301",)), ())])
CAPTIONS = st.lists(
    st.builds(
        Caption,
        id=st.just(""),
        image_id=st.sampled_from(["1", "2"]),
        candidate=TEXTS,
        references=st.lists(TEXTS, max_size=2).map(tuple),
        image=st.sampled_from([None, "1.jpg"]),
        system=st.sampled_from([None, "x"]),
        human=st.sampled_from([None, (1.0, 2.0)]),
        events=EVENTS,
    ),
    max_size=6,
).map(lambda captions: [replace(caption, id=str(k)) for k, caption in enumerate(captions)])


def columns_of(captions: list[Caption]) -> CaptionColumns:
    """These captions; an optional field that none has is left out."""
    optional = [[getattr(each, name) for each in captions] for name in ("image", "system", "human", "events")]
    return CaptionColumns(
        [each.id for each in captions],
        [each.image_id for each in captions],
        [each.candidate for each in captions],
        [each.references for each in captions],
        *(values if any(value is not None for value in values) else () for values in optional),
    )


@given(CAPTIONS, st.lists(st.integers(0, 6)))
def test_parts_join_to_the_whole(captions: list[Caption], ends: list[int]) -> None:
    starts = [0, *sorted(ends)]
    parts = [columns_of(captions[start:end]) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    joined = CaptionSet.from_columns(CaptionColumns.join(parts))
    total = CaptionSet.from_captions(captions)
    assert list(joined) == list(total) == captions
    assert joined.pool.sentences == total.pool.sentences
    assert joined.reference_set_indices.tolist() == total.reference_set_indices.tolist()


@given(CAPTIONS)
def test_every_text_is_brought_into_the_unicode_form(captions: list[Caption]) -> None:
    columns = columns_of(captions)
    changed = normalise_captions(columns, "nfc")
    result = list(CaptionSet.from_columns(columns))
    assert changed == [new.id for new, old in zip(result, captions, strict=True) if new != old]
    texts = [text for each in result for text in (each.candidate, *each.references)]
    texts += [text for each in result if each.events for text in each.events.candidate.sentences]
    assert all(unicodedata.is_normalized("NFC", text) for text in texts)


def test_repeated_ids_are_named_with_their_places() -> None:
    columns = CaptionColumns(["1", "2", "1"], ["a", "b", "c"], ["a dog"] * 3, [()] * 3)
    with pytest.raises(InputError, match="duplicate id '1' \\(captions 0 and 2, counted from 0\\)"):
        CaptionSet.from_columns(columns)
