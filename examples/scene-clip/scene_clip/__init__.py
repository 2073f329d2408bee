"""A small CLIP, trained from nothing on synthetic scenes: an architecture of one's own in capmeter."""
