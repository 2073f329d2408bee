"""Perturbed detailed captions: how often does a metric score them lower, and does `explain` mark the change?

    python scripts/detailed_captions.py --captions vlm_long_captions.jsonl.gz --references long_references.jsonl.gz

A text has one change: an object exchanged for another of its kind, another count, two colours exchanged between two
objects, a spatial relation reversed, a sentence removed, a sentence of another photo added, a third of the sentences
repeated; or it is written in Markdown, which changes nothing that it says. (a) The reference is the text itself:
`--texts` of both files. (b) The reference is the other system's text of the same photo, which states what is changed.
Prints the share of perturbed texts that score lower than the text, and the share of those that score higher, in per
cent by metric and kind, and for `capmeter` how many changes `explain` marks.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from capmeter_research.networks.own_metric.perturbations import contrasting_words

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.report.explain import explain
from capmeter.text.concepts import find_slot, token_concept
from capmeter.text.tokenization.document_splitting import document_sentences

METRICS = "bleu-4,cider-d,meteor,spice,bertscore,sbert,capture(graphs=stanford,ownership=true),capmeter"
OBJECTS = ("vehicle", "animal", "accessory", "sports equipment", "tableware", "furniture", "electronics", "appliance")
RELATIONS = ("side", "height", "before or behind", "in or out")
KINDS = (
    *("object", "count", "colours exchanged", "relation"),
    *("sentence removed", "foreign sentence", "repeated", "Markdown"),
)
WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True)
class Perturbed:
    """A text with one change: its kind, and the words that are new in it (of a sentence, all of them)."""

    kind: str
    text: str
    new: frozenset[str]


def replace_word(text: str, old: re.Match[str], new: str) -> str:
    """The text with one word exchanged, in the case of the old one."""
    return text[: old.start()] + (new.capitalize() if old[0][0].isupper() else new) + text[old.end() :]


def of_slots(text: str, slots: Sequence[str]) -> list[re.Match[str]]:
    """The words that fill one of these slots."""
    return [each for each in WORD.finditer(text) if find_slot(each[0]) in slots]


def next_noun(text: str, word: re.Match[str]) -> str | None:
    """The concept of one of the next two words, which are not colours or numbers."""
    following = WORD.findall(text[word.end() : word.end() + 40])[:2]
    concepts = [
        token_concept(each.lower()) for each in following if find_slot(each) not in ("colour", "number", "size")
    ]
    return next((each for each in concepts if each), None)


def exchange_object(text: str, other: str | None) -> Iterator[Perturbed]:
    """Every mention of an object becomes another of its kind, which neither text has."""
    stated = {word.lower() for word in WORD.findall(text + " " + (other or text))}
    for noun in dict.fromkeys(each[0] for each in of_slots(text, OBJECTS)):
        new = [each for each in contrasting_words(noun) if each not in stated]
        if new and (other is None or re.search(rf"\b{noun}\b", other, re.IGNORECASE)):
            yield Perturbed("object", re.sub(rf"\b{noun}\b", new[0], text), frozenset(new[:1]))


def change_count(text: str, other: str | None) -> Iterator[Perturbed]:
    """A number becomes another one."""
    for word in of_slots(text, ("number",)):
        noun = next_noun(text, word)
        if word[0].lower() in ("a", "an", "one", "single", "couple", "pair") or noun is None:
            continue
        twins = of_slots(other, ("number",)) if other else []
        if other is None or any(w[0].lower() == word[0].lower() and next_noun(other, w) == noun for w in twins):
            new = "five" if word[0].lower() != "five" else "two"
            yield Perturbed("count", replace_word(text, word, new), frozenset({new}))


def exchange_colours(text: str, other: str | None) -> Iterator[Perturbed]:
    """Two objects exchange their colours."""
    colours = [(word, next_noun(text, word)) for word in of_slots(text, ("colour",))]
    stated = {(w[0].lower(), next_noun(other, w)) for w in of_slots(other, ("colour",))} if other else None
    colours = [(w, n) for w, n in colours if n and (stated is None or (w[0].lower(), n) in stated)]
    for k, (first, noun) in enumerate(colours):
        for second, other_noun in colours[k + 1 :]:
            if noun != other_noun and first[0].lower() != second[0].lower():
                changed = replace_word(replace_word(text, second, first[0].lower()), first, second[0].lower())
                yield Perturbed("colours exchanged", changed, frozenset({first[0].lower(), second[0].lower()}))


def reverse_relation(text: str, other: str | None) -> Iterator[Perturbed]:
    """Left becomes right, above below, behind front, inside outside."""
    for word in of_slots(text, RELATIONS):
        new = contrasting_words(word[0])[0]
        window = WORD.findall(text[max(0, word.start() - 40) : word.end() + 40])
        near = {token_concept(each.lower()) for each in window} - {None}
        twins = [w for w in of_slots(other, RELATIONS) if w[0].lower() == word[0].lower()] if other else []
        windows = [WORD.findall(other[max(0, w.start() - 40) : w.end() + 40]) for w in twins] if other else []
        if other is None or any(len(near & {token_concept(w.lower()) for w in window}) > 1 for window in windows):
            yield Perturbed("relation", replace_word(text, word, new), frozenset({new}))


def perturbations(text: str, other: str | None, foreign: str, random: np.random.Generator) -> list[Perturbed]:
    """One perturbation of each kind that the text allows."""
    result = []
    changes: tuple[Callable[[str, str | None], Iterator[Perturbed]], ...]
    changes = (exchange_object, change_count, exchange_colours, reverse_relation)
    for change in changes:
        every = list(change(text, other))
        result += [every[int(random.integers(len(every)))]] if every else []
    sentences = document_sentences(text)
    at = int(random.integers(1, len(sentences)))
    words = frozenset(word.lower() for word in WORD.findall(foreign))
    result.append(Perturbed("foreign sentence", " ".join([*sentences[:at], foreign, *sentences[at:]]), words))
    result.append(Perturbed("sentence removed", " ".join(sentences[:at] + sentences[at + 1 :]), frozenset()))
    third = sentences[: max(1, len(sentences) // 3)]
    result.append(Perturbed("repeated", " ".join([*sentences, *third]), frozenset()))
    items = (f"- **{first}** {rest}" for first, _, rest in (each.partition(" ") for each in sentences))
    result.append(Perturbed("Markdown", "\n".join(items), frozenset()))
    return result


def measure(rows: Sequence[tuple[str, str, Sequence[Perturbed]]], metrics: str) -> dict[str, dict[str, list[float]]]:
    """For each metric and kind: 1 for a perturbed text that scores lower than the text, −1 for higher, 0 for equal."""
    captions, starts = [], []
    for k, (text, reference, perturbed) in enumerate(rows):
        variants = [text, *(each.text for each in perturbed)]
        captions += [Caption(f"{k}/{j}", f"{k}/{j}", variant, (reference,)) for j, variant in enumerate(variants)]
        starts.append(len(captions) - len(variants))
    results = capmeter.score(CaptionSet.from_captions(captions), metrics)
    columns = {name: np.asarray(scores.items.array) for name, scores in results.items()}
    columns["length"] = np.array([float(len(each.candidate.split())) for each in captions])
    lower: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in columns}
    for name, scores in columns.items():
        for first, (_, _, perturbed) in zip(starts, rows, strict=True):
            for j, each in enumerate(perturbed, 1):
                lower[name][each.kind].append(float(np.sign(scores[first] - scores[first + j])))
    return lower


def measure_marks(rows: Sequence[tuple[str, str, Sequence[Perturbed]]]) -> dict[str, list[tuple[bool, bool, float]]]:
    """By kind: is a new word marked, or in a tuple that the reference lacks, and the share of all words marked."""
    marked: dict[str, list[tuple[bool, bool, float]]] = defaultdict(list)
    every = [(each, reference) for _, reference, perturbed in rows for each in perturbed]
    captions = CaptionSet.from_captions(Caption(str(k), str(k), p.text, (r,)) for k, (p, r) in enumerate(every))
    for (each, _), explanation in zip(every, explain(captions, "capmeter"), strict=True):
        evidence = explanation.evidence["capmeter"]
        positions = [k for mark in evidence.marks if mark.side == "candidate" for k in range(mark.start, mark.end)]
        words = {"".join(WORD.findall(evidence.candidate[k])).lower() for k in positions}
        tuples = evidence.scene.tuples if evidence.scene is not None else ()
        alone = {w for t in tuples if t.side == "candidate" and not t.matched for part in t.words for w in part.split()}
        share = len(set(positions)) / max(1, len(evidence.candidate))
        marked[each.kind].append((bool(words & each.new), bool((words | alone) & each.new), share))
    return marked


def read_rows(path: Path) -> list[dict[str, object]]:
    """The rows of gzipped JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def print_table(title: str, lower: dict[str, dict[str, list[float]]]) -> None:
    """A Markdown table: for each kind the share of texts that score lower, and of those that score higher."""
    kinds = [kind for kind in KINDS if any(kind in each for each in lower.values())]
    counts = {kind: len(next(iter(lower.values()))[kind]) for kind in kinds}
    print(f"\n{title}\n\n| metric | {' | '.join(f'{k} ({n})' for k, n in counts.items())} |")
    print("|---|" + "---|" * len(kinds))
    for name, by_kind in lower.items():
        shares = [[100 * np.mean(np.equal(by_kind[kind], sign)) for sign in (1, -1)] for kind in kinds]
        print(f"| `{name}` | {' | '.join(f'{low:.0f} / {high:.0f}' for low, high in shares)} |", flush=True)


def main() -> None:
    """Runs both measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True, help="rows {image_id, system, candidate}")
    parser.add_argument("--references", type=Path, required=True, help="rows {references}")
    parser.add_argument("--texts", type=int, default=400, help="number of texts of (a), half of each file")
    parser.add_argument("--photos", type=int, default=266, help="number of photos of (b)")
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--only", choices=("a", "b", "marks"), action="append", help="only these parts")
    options = parser.parse_args()
    random = np.random.default_rng(0)
    machine = [row for row in read_rows(options.captions) if document_sentences(str(row["candidate"]))]
    people = [text for row in read_rows(options.references) for text in row["references"]]  # type: ignore[attr-defined]
    texts = [str(row["candidate"]) for row in machine[: options.texts // 2]]
    texts += [text for text in people if document_sentences(text)][: options.texts - len(texts)]
    photos: dict[object, list[str]] = defaultdict(list)
    for row in machine:
        photos[row["image_id"]].append(str(row["candidate"]))
    pairs = [each for each in photos.values() if len(each) == 2][: options.photos]
    alone = [(t, t, perturbations(t, None, document_sentences(texts[k - 1])[0], random)) for k, t in enumerate(texts)]
    same = [
        (a, b, perturbations(a, b, document_sentences(pairs[k - 1][0])[0], random)) for k, (a, b) in enumerate(pairs)
    ]
    parts = options.only or ("a", "b", "marks")
    if "a" in parts:
        print_table(f"(a) reference: the text itself; {len(alone)} texts", measure(alone, options.metrics))
    if "b" in parts:
        print_table(f"(b) reference: another text of the photo; {len(same)} photos", measure(same, options.metrics))
    if "marks" in parts:
        marked = measure_marks(same)
        every = [each for values in marked.values() for each in values]
        for kind, values in {"all": every, **marked}.items():
            words, tuples, share = (100 * np.mean([each[k] for each in values]) for k in range(3))
            print(f"{kind} ({len(values)}): marked {words:.1f}, or in a tuple {tuples:.1f}; words marked {share:.1f}")


if __name__ == "__main__":
    main()
