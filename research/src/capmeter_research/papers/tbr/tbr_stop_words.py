"""TBR's stop words: the long English list that TBR removes before its second comparison (Yi et al. 2020).

The 1,186 distinct entries of the list in the paper's code (whose file has 1,528 lines, with duplicates). It is broader
than usual: it includes numerals, short verbs (`take`, `run`), `side`, `top`, `home`, the full stop, single letters in
both cases and many letter pairs, but not the comma. Look-ups are case-sensitive, as in that code.
"""

from __future__ import annotations

from importlib.resources import files

TBR_STOP_WORDS = frozenset((files("capmeter_research.papers.tbr") / "stop_words.txt").read_text("utf-8").split())
