"""A small made world of captions for tests: human captions name a thing and what it does; machines err."""

from __future__ import annotations

import numpy as np
from capmeter_research.papers.leic.training.examples import CaptionedImage, MachineText

THINGS = ("dog", "cat", "bird", "horse", "boat", "train", "child", "woman")
DEEDS = ("runs", "sleeps", "waits", "turns", "stops", "plays")
PLACES = ("park", "street", "house", "river")


def captioned(count: int, seed: int = 0) -> list[CaptionedImage]:
    random = np.random.default_rng(seed)
    images = []
    for number in range(count):
        thing, deed, location = (str(random.choice(each)) for each in (THINGS, DEEDS, PLACES))
        human = (
            f"a {thing} {deed} in the {location}",
            f"the {thing} {deed} near a {location}",
            f"in the {location} a {thing} {deed}",
        )
        machine = (
            MachineText(f"a {thing} on a {thing} in a {location}", (0,), "first"),
            MachineText(f"a {deed} {deed}", (), "second"),
        )
        images.append(CaptionedImage(str(number), human, machine, (MachineText(f"some {location} {thing}"),)))
    return images
