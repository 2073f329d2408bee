"""Pages of damaged results: each gives a page or a sentence, never a traceback and never half a page.

python tests/fuzz/pages.py --inputs 3000 --seed 1
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.page_examples import candidates, scored

from capmeter.core.errors import CapmeterError
from capmeter.evaluation.results import read_all, save_all
from capmeter.report.page import write_page

VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 0.5, 2**40, 10**30, 1e308, -1e308, float("nan"), float("inf"), "", "x", "NaN",
    "\0", "\ud83d", [], {}, [1], [None], ["a"], [[]], [{}], {"a": 1}, {"image 0": "x"}, {"image 0": None},
    {"image 0": ["image 1"]},
]  # fmt: skip
KEYS = ["", "x", "\0", "\ud83d", "</script>", "image 9", "one", "bleu-4"]


def place(random_: random.Random, value: Any) -> list[Any]:
    """The way to some value inside this one."""
    way: list[Any] = []
    while isinstance(value, dict | list) and value and (not way or random_.random() < 0.8):
        way.append(random_.choice(list(value)) if isinstance(value, dict) else random_.randrange(len(value)))
        value = value[way[-1]]
    return way


def damage(random_: random.Random, saved: Any) -> None:
    """Replaces, removes, renames, shuffles or copies one value of the file."""
    *way, last = place(random_, saved) or [None]
    target = saved
    for key in way:
        target = target[key]
    if last is None:
        return
    how = random_.random()
    if how < 0.65:
        target[last] = copy.deepcopy(random_.choice(VALUES))
    elif how < 0.8:
        del target[last]
    elif how < 0.9 and isinstance(target, dict):
        target[random_.choice(KEYS)] = target.pop(last)
    elif how < 0.95 and isinstance(target, dict):
        shuffled = list(target.items())
        random_.shuffle(shuffled)
        target.clear()
        target.update(shuffled)
    else:
        other = saved
        for key in place(random_, saved):
            other = other[key]
        target[last] = copy.deepcopy(other)


def outcomes(folder: Path, number: int, seed: int) -> Counter[str]:
    """How many of so many damaged files gave a page and how many a sentence; anything else is raised."""
    source, page = folder / "results.json", folder / "page.html"
    inputs = {
        name: scored(candidates(5, k), metrics="bleu-4,cider-d,sparcs", image="https://example.org/a.png")
        for k, name in enumerate(("one", "two"))
    }
    save_all(inputs, source)
    good = json.loads(source.read_text(encoding="utf-8"))
    alone = {**good, "systems": {"one": good["systems"]["one"]}}
    random_, visits = random.Random(seed), Counter[str]()
    for _ in range(number):
        saved = copy.deepcopy(random_.choice([good, good, alone]))
        for _ in range(random_.choice([1, 1, 1, 2, 3])):
            damage(random_, saved)
        text = json.dumps(saved)
        if random_.random() < 0.05:
            at = random_.randrange(len(text))
            text = text[:at] + random_.choice(["", "0", "1e999", '"', "null", "[", "9" * 30]) + text[at + 1 :]
        source.write_text(text, encoding="utf-8")
        page.unlink(missing_ok=True)
        try:
            write_page(read_all(source), page, resamples=10, explained=2, images=random_.choice(["link", "none"]))
        except CapmeterError as problem:
            assert str(problem) and not page.exists()
            visits["sentence"] += 1
        else:
            assert page.read_text(encoding="utf-8").rstrip().endswith("</html>")
            visits["page"] += 1
    return visits


def main() -> None:
    """Prints how many gave a page and how many a sentence; anything else is raised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    inputs = parser.parse_args()
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory() as folder:
        print(dict(outcomes(Path(folder), inputs.inputs, inputs.seed)))


if __name__ == "__main__":
    main()
