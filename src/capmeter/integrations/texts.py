"""Texts as other libraries hand them over: in a list, a tuple, an array, a tensor or a series; or by image, as
pycocoevalcap's scorers take them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.rows import caption_text, reference_list
from capmeter.captions.words import find_untokenised
from capmeter.core.errors import InputError
from capmeter.core.messages import describe

Texts = Mapping[Hashable, Sequence[str]]


def entries_of(values: Any, name: str) -> list[Any]:
    """The entries of anything with an order and a length.

    Raises:
        InputError: one text, or a value without an order, such as a generator or a dict.
    """
    is_refused = isinstance(values, str | bytes | bytearray | memoryview | Mapping | Set)
    if is_refused or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise InputError(f"{name}: expected a list with an entry for each caption, got {describe(values)}")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def plain_number(value: Any) -> Any:
    """A number of numpy or torch as Python's; other values as they are."""
    return value.item() if hasattr(value, "item") else value


def texts_of(values: Any, name: str) -> list[str]:
    """The texts of a list; an `InputError` names the entry that is none."""
    return [
        caption_text(value, f"{name}[{index}]", "the caption") for index, value in enumerate(entries_of(values, name))
    ]


def reference_lists_of(values: Any, name: str) -> list[list[str]]:
    """The references of each caption, each a list of texts or one text."""
    return [
        list(reference_list(value, f"{name}[{index}]", "the list"))
        for index, value in enumerate(entries_of(values, name))
    ]


def read_annotations(image_id: Hashable, image_annotations: Any) -> list[str]:
    """The texts of `[{"caption": text}, …]` or `[text, …]`."""
    expected = f'image {image_id!r}: expected a list of {{"caption": text}} or of texts, got'
    if isinstance(image_annotations, str | Mapping) or not isinstance(image_annotations, Sequence):
        raise InputError(f"{expected} {describe(image_annotations)}")
    texts: list[Any] = [each.get("caption") if isinstance(each, Mapping) else each for each in image_annotations]
    for text, annotation in zip(texts, image_annotations, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{expected} {describe(annotation)} among them")
    return texts


def read_tokens(gts: Any, res: Any) -> CaptionSet:
    """The captions; an `InputError` if most are not tokenised."""
    gts, res = _by_row(gts, res)
    caption_set = read_texts(gts, res)
    for name, captions_by_image in (("gts", gts), ("res", res)):
        texts = [text for image_captions in captions_by_image.values() for text in image_captions]
        untokenised = find_untokenised(texts)
        if 2 * len(untokenised) > len(texts):
            raise InputError(
                f"{name}: {len(untokenised):,} of {len(texts):,} captions are not tokenised ({untokenised[0]!r:.80}): "
                "the full stop is part of the last word, so equal words count as different; pass both gts and res "
                "through PTBTokenizer().tokenize(...) first, or use COCOEvalCap, which does"
            )
    return caption_set


def _by_row(gts: Any, res: Any) -> tuple[Any, Any]:
    """References and captions by row, where `res` is a list of `{"image_id": …, "caption": [text]}`."""
    if not isinstance(res, list | tuple) or not isinstance(gts, Mapping):
        return gts, res
    for k, row in enumerate(res):
        if not isinstance(row, Mapping) or not {"image_id", "caption"} <= row.keys():
            raise InputError(f'res[{k}]: expected {{"image_id": …, "caption": [text]}}, got {describe(row)}')
        if not isinstance(row["image_id"], Hashable) or row["image_id"] not in gts:
            raise InputError(f"res[{k}]: gts has no references of image {describe(row['image_id'])}")
    captions = {k: [row["caption"]] if isinstance(row["caption"], str) else row["caption"] for k, row in enumerate(res)}
    return {k: gts[row["image_id"]] for k, row in enumerate(res)}, captions


def read_texts(gts: Any, res: Any) -> CaptionSet:
    """The captions of the same images in both, one candidate each; an `InputError` says where they are not."""
    for name, captions_by_image in (("gts", gts), ("res", res)):
        if not isinstance(captions_by_image, Mapping):
            raise InputError(f"{name}: expected a dict id → list of captions, got {type(captions_by_image).__name__}")
        for key, texts in captions_by_image.items():
            texts_of(texts, f"{name}[{key!r}]")
    if gts.keys() != res.keys():
        unmatched_ids = [sorted(map(repr, a.keys() - b.keys()))[:5] for a, b in ((gts, res), (res, gts))]
        raise InputError(
            f"gts and res must have the same ids; only in gts: {', '.join(unmatched_ids[0]) or 'none'}; only in res: "
            f"{', '.join(unmatched_ids[1]) or 'none'} (the first five of each)"
        )
    return make_captions(gts, res)


def make_captions(gts: Texts, res: Texts) -> CaptionSet:
    """The captions in the order of `gts`, with their positions as ids, because keys here may be of any type."""
    for key in gts:
        if len(res[key]) != 1:
            raise InputError(f"res[{key!r}]: expected a list of exactly one caption, got {len(res[key])}")
        if not gts[key]:
            raise InputError(f"gts[{key!r}]: expected at least one reference, got none")
    if not gts:
        raise InputError("gts and res are empty; there is no caption to score")
    return CaptionSet.from_captions(Caption(str(k), str(k), res[key][0], tuple(gts[key])) for k, key in enumerate(gts))
