"""Reading captions: from files of every common format, from lists and dicts.

>>> captions = load(["a dog runs", "two cats"], references=[["a dog is running"], ["two cats sleep", "cats"]])
>>> captions["1"].references
('two cats sleep', 'cats')
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from capmeter.captions.caption_set import CaptionSet
from capmeter.captions.load_options import LoadOptions, Source
from capmeter.captions.matching import CaptionLoader, ReferenceTable, read_references
from capmeter.core.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from capmeter.captions.load_options import LoadKeywords, ReferenceKeywords


def load(
    candidates: Source,
    references: Source | None = None,
    *,
    options: LoadOptions | None = None,
    **keywords: Unpack[LoadKeywords],
) -> CaptionSet:
    """Reads captions into memory.

    Args:
        candidates: a file in any of the formats of `capmeter.captions.reading.NAMES`, plain or compressed, or the
            content of such a file: a list or a dict.
        references: the references, if they are not in the same rows; they take precedence.
        options: how the captions are read.
        keywords: fields of `LoadOptions`, which replace those of `options`.

    Returns:
        The captions. Their `notes` list what was adjusted: `skipped_without_references` or `kept_without_references`,
        `references_without_candidate` or `scored_as_empty`, `repeated_candidates`, and `matched_by` if images were not
        matched by id.

    Raises:
        InputError: the captions are not as expected; the message says where and how to correct them.
    """
    loader = CaptionLoader.open(candidates, LoadOptions.from_keywords(options, keywords, references))
    return loader.make_set(*loader.match(loader.read()))


def load_systems(
    candidates: Source,
    references: Source | None = None,
    *,
    options: LoadOptions | None = None,
    **keywords: Unpack[LoadKeywords],
) -> dict[str, CaptionSet]:
    """Reads captions of several systems (`system` in a row, or `captions: {system: text}`): one set for each.

    Args:
        candidates: as in `load`, as are the rest.
        references: in a source of their own.
        options: how the captions are read.
        keywords: fields of `LoadOptions`.

    Returns:
        The captions by system; those that name no system have the file's name.
    """
    loader = CaptionLoader.open(candidates, LoadOptions.from_keywords(options, keywords, references))
    systems = loader.match_systems(loader.read(), loader.reader.label)
    return {system: captions for system, (_, captions) in systems.items()}


def load_references(
    references: Source, *, options: LoadOptions | None = None, **keywords: Unpack[ReferenceKeywords]
) -> dict[str, tuple[str, ...]]:
    """Reads references only.

    Args:
        references: a file or its content, in any format, or a list of files, whose references are joined by image.
        options: how they are read; only `format`, `split` and `columns` matter.
        keywords: these fields of `LoadOptions`, which replace those of `options`.

    Returns:
        Each image's references, by image id.

    >>> load_references({"7": ["a dog", "a puppy"]})
    {'7': ('a dog', 'a puppy')}
    """
    return load_reference_table(references, options=options, **keywords).references


def load_reference_table(
    references: Source, *, options: LoadOptions | None = None, **keywords: Unpack[ReferenceKeywords]
) -> ReferenceTable:
    """Reads references, and the pictures that their file names (`images`), by image id.

    Args:
        references, options, keywords: as in `load_references`.
    """
    options = LoadOptions.from_keywords(options, keywords, references)
    table = read_references(replace(options, references_format=options.format))
    if table is None:
        raise InputError("the references: missing (null), expected captions as a list or an object")
    return table
