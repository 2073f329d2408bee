"""Notes on captions as text: a reason, and the captions that it applies to.

>>> describe_note("truncated", ["2"], {"1", "2"}), describe_note("cleaned_of_chat_artifacts", ["7", "12"], {"7", "12"})
('truncated: caption 2', 'cleaned of chat artifacts: 2 captions: 7, 12')
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from capmeter.core.messages import list_names

_LONGEST = 200  # letters of an entry that is a sentence, such as what to do


def describe_note(reason: str, entries: Sequence[str], captions: Container[str] = ()) -> str:
    """A note of a caption set (`skipped_without_references`) with its first entries.

    Args:
        reason: of the note.
        entries: the ids of captions that it applies to; for some reasons other texts, such as names of fields.
        captions: the ids of captions.
    """
    are_captions = reason.startswith("skipped") or all(entry in captions for entry in entries)
    listed_entries = list_captions(entries) if are_captions else list_names(entries, length=_LONGEST)
    return f"{reason.replace('_', ' ')}: {listed_entries}"


def describe_direction(lower_metrics: Iterable[str]) -> str:
    """A note that names the metrics for which lower is better; "" without any.

    >>> describe_direction(["chair", "repetition"]), describe_direction([])
    ('lower is better: chair, repetition', '')
    """
    listed_metrics = ", ".join(lower_metrics)
    return f"lower is better: {listed_metrics}" if listed_metrics else ""


def list_captions(ids: Sequence[str]) -> str:
    """The first of these captions, with their number, so that an id is not read as one."""
    return f"caption {list_names(ids)}" if len(ids) == 1 else f"{len(ids):,} captions: {list_names(ids)}"
