"""Training examples of LCEval (section 7.4.3): human and machine captions of photos, each with four references.

Of each photo with five human captions, three are candidates, with the other four as references. They are matched by
three machine captions, each with a random four of the five; if a caption writer had some of them as input, with four
that it did not. So neither the number of candidates per photo nor the number of references reveals the label. All
candidates are lower-cased and without punctuation, so that spelling does not either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load_references
from capmeter.core.errors import InputError
from capmeter.text.tokenization.token_tables import tokenise_sentences
from capmeter_research.common.benchmark_exclusions import Exclusions, PhotoId, identify_photo, is_excluded
from capmeter_research.common.machine_captions import MachineCaption

CANDIDATES, REFERENCES = 3, 4
HELD_OUT_PERCENT = 5
_NON_LETTERS = re.compile(r"[\W_]+")

HumanCaptions = Mapping[PhotoId, tuple[str, ...]]
"""Human captions by photo."""


@dataclass(frozen=True)
class LabelledCandidate:
    """A candidate with its references; `system` is empty for a human caption."""

    photo: PhotoId
    candidate: str
    references: tuple[str, ...]
    system: str = ""

    @property
    def human(self) -> bool:
        """Whether it is a human caption."""
        return not self.system

    @property
    def held_out(self) -> bool:
        """Whether the photo is held out for accuracy, by its hash: the same photos in every run."""
        digest = hashlib.sha256("lceval {} {}".format(*self.photo).encode()).hexdigest()
        return int(digest[:12], 16) % 100 < HELD_OUT_PERCENT


def read_human_captions(path: Path, exclusions: Exclusions) -> tuple[dict[PhotoId, tuple[str, ...]], int]:
    """The human captions of each photo, in their order, and the number of excluded photos.

    Args:
        path: captions in any format; photos are identified by their image ids.
        exclusions: numbers of benchmark photos by source.

    Raises:
        InputError: the file cannot be read, or has photos of a source that the exclusions do not list.
    """
    captions: dict[PhotoId, list[str]] = {}
    for image_id, texts in load_references(path).items():
        captions.setdefault(identify_photo(image_id), []).extend(text for text in texts if text.strip())
    trainable_captions = {
        photo: tuple(texts) for photo, texts in captions.items() if not is_excluded(photo, exclusions)
    }
    return trainable_captions, len(captions) - len(trainable_captions)


def build_examples(
    human: HumanCaptions,
    machine: Iterable[MachineCaption],
    exclusions: Exclusions,
    *,
    seed: int = 0,
    max_photos: int | None = None,
) -> list[LabelledCandidate]:
    """The examples of all photos with five human captions and at least one machine caption.

    A photo with fewer than three machine captions has as many human candidates. A machine caption that is also a
    human caption of the photo is ignored. The choices depend on the seed and the photo alone, not on other photos.

    Args:
        human: from `read_human_captions`.
        machine: from `read_machine_captions`; captions of photos without human captions are ignored.
        exclusions: benchmark photos by source.
        seed: of the choices.
        max_photos: maximum number of photos, in the order of a hash; none: all.

    Raises:
        InputError: there is no such photo.
    """
    machine_by_photo: dict[PhotoId, list[MachineCaption]] = {}
    for each in machine:
        if each.photo in human and not is_excluded(each.photo, exclusions):
            machine_by_photo.setdefault(each.photo, []).append(each)
    photos = sorted(
        (photo for photo in machine_by_photo if len(set(human[photo])) > REFERENCES),
        key=lambda photo: hashlib.sha256(f"{seed} {photo}".encode()).digest(),
    )
    examples = [
        each for photo in photos[:max_photos] for each in _photo_examples(human[photo], machine_by_photo[photo], seed)
    ]
    if not examples:
        raise InputError(
            f"no training example: {len(human):,} photos with human captions, {len(machine_by_photo):,} of them with "
            f"machine captions, {len(photos):,} with at least {REFERENCES + 1} human captions"
        )
    candidates = tokenise_sentences("ptb", [example.candidate for example in examples])
    return [
        LabelledCandidate(example.photo, " ".join(candidate_tokens), example.references, example.system)
        for example, candidate_tokens in zip(examples, candidates, strict=True)
    ]


def _photo_examples(human: Sequence[str], machine: Sequence[MachineCaption], seed: int) -> list[LabelledCandidate]:
    photo = machine[0].photo
    rng = np.random.default_rng([seed, *hashlib.sha256(":".join(photo).encode()).digest()[:8]])
    distinct_texts = list(dict.fromkeys(human))
    chosen_texts = [distinct_texts[k] for k in rng.permutation(len(distinct_texts))[: REFERENCES + 1]]
    human_spellings = {_NON_LETTERS.sub("", text.lower()) for text in human}
    distinct_captions: dict[str, tuple[MachineCaption, tuple[str, ...]]] = {}  # by spelling, each with its references
    for k in rng.permutation(len(machine)).tolist():
        spelling = _NON_LETTERS.sub("", machine[k].caption.lower())
        input_texts = {human[index] for index in machine[k].inputs if 0 <= index < len(human)}
        unread_texts = [text for text in chosen_texts if text not in input_texts]
        if spelling and spelling not in human_spellings and len(unread_texts) >= REFERENCES:
            reference_rows = np.sort(rng.permutation(len(unread_texts))[:REFERENCES])
            distinct_captions.setdefault(
                spelling, (machine[k], tuple(unread_texts[row] for row in reference_rows.tolist()))
            )
    examples = []
    for k, (machine_caption, references) in enumerate(
        _alternate_systems(list(distinct_captions.values()))[:CANDIDATES]
    ):
        examples.append(LabelledCandidate(photo, chosen_texts[k], tuple(chosen_texts[:k] + chosen_texts[k + 1 :])))
        examples.append(LabelledCandidate(photo, machine_caption.caption, references, machine_caption.system))
    return examples


def _alternate_systems(
    machine: Sequence[tuple[MachineCaption, tuple[str, ...]]],
) -> list[tuple[MachineCaption, tuple[str, ...]]]:
    """The same captions, one of each system before the second of any."""
    system_turns: dict[str, int] = {}
    turn_order = []
    for caption_index, (machine_caption, _) in enumerate(machine):
        system_turns[machine_caption.system] = turn = system_turns.get(machine_caption.system, -1) + 1
        turn_order.append((turn, caption_index))
    return [machine[caption_index] for _, caption_index in sorted(turn_order)]


def build_caption_set(examples: Sequence[LabelledCandidate]) -> CaptionSet:
    """The examples as a caption set; ids are their positions."""
    return CaptionSet.from_captions(
        Caption(
            str(k), " ".join(example.photo), example.candidate, example.references, system=example.system or "human"
        )
        for k, example in enumerate(examples)
    )
