"""CHAIR beside its released Python port, or beside a plain rewrite of the port's steps, on the same captions.

    python benchmarks/chair.py [--captions 10000] [--words 100] [--port FOLDER]

FOLDER holds the standalone port's chair.py and what it imports (NLTK with its data, pattern). Without it the steps are
written out plainly: tokens by NLTK's rules, the singular of each word by trying one regular expression after another,
double words, then every word looked up in a set that is made of the list anew for each word, as the port does. Captions
are made of words of the list and others. The last lines show that time grows with the number of captions, and what a
run in parts of four times as many needs in memory.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from nltk.tokenize.destructive import NLTKWordTokenizer

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.metrics.hallucination.object_words import BUNDLED, ObjectWords, load_object_words

_FILLERS = "the image features a with and on in of near there is are two several large small standing next to"
_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"people$", "person"), (r"children$", "child"), (r"men$", "man"), (r"feet$", "foot"), (r"teeth$", "tooth"),
        (r"geese$", "goose"), (r"oxen$", "ox"), (r"([ml])ice$", r"\1ouse"), (r"(quiz)zes$", r"\1"),
        (r"(shoe)s$", r"\1"), (r"(o)es$", r"\1"), (r"(bus)es$", r"\1"), (r"(x|ch|ss|sh)es$", r"\1"),
        (r"([^aeiouy]|qu)ies$", r"\1y"), (r"([aeo]l)ves$", r"\1f"), (r"([nlw]i)ves$", r"\1fe"),
        (r"([aeo])ves$", r"\1ve"), (r"s$", ""),
    )
]  # fmt: skip


def make_captions(count: int, length: int, words: ObjectWords) -> list[str]:
    """Captions of that many words, one in eight an object, in sentences of about twelve words."""
    generator, fillers = random.Random(0), _FILLERS.split()
    names = [word for word in words.nodes if " " not in word]
    captions = []
    for _ in range(count):
        selection = [generator.choice(names if generator.random() < 1 / 8 else fillers) for _ in range(length)]
        sentences = (" ".join(selection[start : start + 12]) for start in range(0, length, 12))
        captions.append(". ".join(sentences).capitalize() + ".")
    return captions


def plain_rewrite(captions: list[str], truth: set[str], words: ObjectWords) -> tuple[int, int]:
    """Mentions and hallucinated mentions by the port's steps, one caption after the other."""
    tokenizer, all_words = NLTKWordTokenizer(), list(words.nodes)
    mentions = hallucinated = 0
    for caption in captions:
        tokens = [
            token for sentence in re.split(r"(?<=[.!?])\s+", caption.lower()) for token in tokenizer.tokenize(sentence)
        ]
        singular = []
        for token in tokens:
            for pattern, replacement in _RULES:
                if pattern.search(token):
                    token = pattern.sub(replacement, token)
                    break
            singular.append(token)
        merged, start = [], 0
        while start < len(singular):
            double = " ".join(singular[start : start + 2])
            merged.append(words.double_words.get(double, singular[start]))
            start += 2 if double in words.double_words else 1
        if "toilet" in merged and "seat" in merged:
            merged = [word for word in merged if word != "seat"]
        places = [k for k, word in enumerate(merged) if word in set(all_words)]
        nodes = [words.nodes[word] for word in merged if word in set(all_words)]
        assert len(places) == len(nodes)
        mentions += len(nodes)
        hallucinated += sum(node not in truth for node in nodes)
    return mentions, hallucinated


def released_port(folder: Path, captions: list[str], truth: set[str]) -> tuple[int, int]:
    """The same by the port's own `caption_to_words`."""
    sys.path.insert(0, str(folder))
    import chair

    evaluator = chair.CHAIR.__new__(chair.CHAIR)
    evaluator.get_annotations = lambda: None
    evaluator.__init__(str(folder))
    nodes = [node for caption in captions for node in evaluator.caption_to_words(caption)[1]]
    return len(nodes), sum(node not in truth for node in nodes)


def by_capmeter(captions: list[str], objects: str) -> tuple[int, int]:
    """The same by capmeter."""
    metric = capmeter.parse(f'chair(objects="{objects}",references=false)')
    captions_set = CaptionSet.from_captions(Caption(str(k), "1", text, ()) for k, text in enumerate(captions))
    values = capmeter.score(captions_set, [metric])[str(metric)].values
    assert values is not None
    return int(values[:, 1].sum()), int(values[:, 2].sum())


def seconds(function: Callable[[], tuple[int, int]]) -> tuple[float, tuple[int, int]]:
    """Processor seconds, and the counts."""
    start = time.process_time()
    counts = function()
    return time.process_time() - start, counts


def main() -> None:
    """Prints the times, the counts and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--port", type=Path, help="the folder of the released port")
    options = parser.parse_args()
    words, truth = load_object_words(BUNDLED), {"person", "dog", "car"}
    captions = make_captions(options.captions, options.words, words)
    with tempfile.TemporaryDirectory() as folder:
        objects = str(Path(folder) / "objects.json")
        Path(objects).write_text(json.dumps({"1": sorted(truth)}))
        by_capmeter(captions[:10], objects)  # loads what it needs
        ours, counts = seconds(lambda: by_capmeter(captions, objects))
        half, _ = seconds(lambda: by_capmeter(captions[: len(captions) // 2], objects))
        peer = "released port" if options.port else "plain rewrite"
        if options.port:
            other_values, peer_counts = seconds(lambda: released_port(options.port, captions, truth))
        else:
            other_values, peer_counts = seconds(lambda: plain_rewrite(captions, truth, words))
        print(f"capmeter       {ours:8.2f} s  {counts[0]:,} mentions, {counts[1]:,} hallucinated")
        print(f"{peer}  {other_values:8.2f} s  {peer_counts[0]:,} mentions, {peer_counts[1]:,} hallucinated")
        print(f"ratio          {other_values / ours:8.1f}")
        print(f"half as many   {half:8.2f} s")
        for factor in (1, 4):
            print(f"in parts, {factor} x {_peak(captions, objects, factor, folder):,.0f} MB at most")


def _peak(captions: list[str], objects: str, factor: int, folder: str) -> float:
    """The largest memory of a process that scores the captions, this many times over, in parts."""
    import subprocess

    path = Path(folder) / f"{factor}.jsonl"
    with path.open("w") as file:
        for k, caption in enumerate(captions * factor):
            file.write(json.dumps({"id": str(k), "image_id": "1", "caption": caption}) + "\n")
    command = [
        "score",
        str(path),
        "--instances",
        objects,
        "-m",
        "chair",
        "--parts",
        str(Path(folder) / f"scores-{factor}"),
        "--rows",
        "5000",
        "--no-intervals",
    ]
    code = (
        "import resource, sys; from capmeter.cli.main import main\n"
        f"sys.argv = ['capmeter'] + {command!r}\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return int(printed.split()[-1]) / 1024


if __name__ == "__main__":
    main()
