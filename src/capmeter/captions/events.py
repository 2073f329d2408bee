"""Captions of events in time: sentences with a start and an end, in seconds of one video; or of boxes in a picture.

Read as one text, a video's events are a paragraph: the sentences in the order of the file, joined by blanks. Metrics
that need no times score this paragraph; those that do (`soda-c`, `dense`, `proposals`) use the times.

>>> events = Events(((4.0, 9.5), (0.0, 4.0)), ("it sleeps", "a dog eats."))
>>> events.paragraph
'it sleeps a dog eats.'
>>> events.in_order().sentences
('a dog eats.', 'it sleeps')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Events:
    """The events of one video, as one system or annotator describes them.

    times: start and end of each event in seconds, 0 ≤ start ≤ end; or the box of each object, its lower corner before
        its upper: (x1, y1, x2, y2), or in space (x1, y1, z1, x2, y2, z2).
    sentences: the caption of each event.
    """

    times: tuple[tuple[float, ...], ...] = ()
    sentences: tuple[str, ...] = ()

    @property
    def paragraph(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)

    def map(self, change: Callable[[str], str]) -> Events:
        """The same events with changed sentences."""
        return Events(self.times, tuple(map(change, self.sentences)))

    def in_order(self) -> Events:
        """The same events by start, then end, then their order in the file."""
        event_order = sorted(range(len(self.times)), key=lambda k: self.times[k])
        return Events(tuple(self.times[k] for k in event_order), tuple(self.sentences[k] for k in event_order))


@dataclass(frozen=True, slots=True)
class VideoEvents:
    """The candidate's events of one video, and those of each annotator."""

    candidate: Events
    references: tuple[Events, ...]
