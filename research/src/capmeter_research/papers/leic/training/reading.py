"""Images to train a critic on, from files: human captions of photos, and what machines wrote of them.

Rows of machine captions (`capmeter_research.common.machine_captions`) of photos that are not trained on are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from capmeter.captions.caption_set import CaptionSet
from capmeter.core.checkpoints import TrainingData
from capmeter.core.errors import InputError
from capmeter_research.common.corpus import PhotoCorpus
from capmeter_research.common.machine_captions import iter_machine_rows, read_machine_captions
from capmeter_research.papers.leic.training.examples import CaptionedImage, MachineText
from capmeter_research.papers.leic.training.recipe import MACHINE, SAMPLES


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """Images to train on, those held out (by photo), and the files they came from."""

    learned: tuple[CaptionedImage, ...]
    held_out: tuple[CaptionedImage, ...]
    data: tuple[TrainingData, ...]


def read_images(
    corpora: Sequence[PhotoCorpus],
    machine: Sequence[str] = (),
    samples: Sequence[str] = (),
    *,
    most: int = 0,
    seed: int = 0,
) -> TrainingImages:
    """The images of these corpora with the machine captions and samples of these files.

    Args:
        corpora: photos with human captions, without those of benchmarks.
        machine: files of machine captions.
        samples: files of Monte-Carlo samples.
        most: maximum number of photos per corpus; 0: all.
        seed: of the sampled photos.

    Raises:
        InputError: a row is not a machine caption, or a file has none of a photo that is trained on.
    """
    photos = [photo for corpus in corpora for photo in corpus.sample(min(most, len(corpus.photos)), seed)]
    photo_keys = {(photo.source, photo.number) for photo in photos}
    captions_by_kind: dict[str, dict[tuple[str, str], list[MachineText]]] = {MACHINE: {}, SAMPLES: {}}
    files = []
    for caption_kind, paths in ((MACHINE, machine), (SAMPLES, samples)):
        for path in paths:
            count = 0
            for caption in read_machine_captions(path, corpora[0].data.name):
                if caption.photo in photo_keys:
                    text = MachineText(caption.caption, caption.inputs, caption.system)
                    captions_by_kind[caption_kind].setdefault(caption.photo, []).append(text)
                    count += 1
            if not count:
                raise InputError(f"{path}: none of its captions is of a photo that is trained on; check its photos")
            files.append(TrainingData(Path(path).name, hashlib.sha256(Path(path).read_bytes()).hexdigest(), count))
    learned: list[CaptionedImage] = []
    held_out: list[CaptionedImage] = []
    for photo in photos:
        photo_key = (photo.source, photo.number)
        image = CaptionedImage(
            photo.number,
            photo.captions,
            tuple(captions_by_kind[MACHINE].get(photo_key, ())),
            tuple(captions_by_kind[SAMPLES].get(photo_key, ())),
        )
        (held_out if photo.held_out else learned).append(image)
    return TrainingImages(tuple(learned), tuple(held_out), (*(corpus.data for corpus in corpora), *files))


def read_samples(files: Sequence[str], systems: Mapping[str, CaptionSet]) -> dict[str, dict[str, list[str]]]:
    """Monte-Carlo samples of submissions' captioners, by submission and image id.

    Args:
        files: `NAME=FILE`, rows `{"image_id" or "photo", "candidate"}`, as many for an image as there are.
        systems: the submissions.

    Raises:
        InputError: a name is not that of a submission, a row has no caption, or a file has none of the images.
    """
    samples_by_system: dict[str, dict[str, list[str]]] = {}
    for sample_file in files:
        system_name, equals, path = sample_file.partition("=")
        if not equals or system_name not in systems:
            raise InputError(
                f"samples {sample_file!r}: expected NAME=FILE with the name of a submission ({', '.join(systems)})"
            )
        images, samples_of_system = set(systems[system_name].image_ids), samples_by_system.setdefault(system_name, {})
        for row in iter_machine_rows(path) or ():
            image_id = str(row.get("image_id", row.get("photo")))
            if image_id in images:
                samples_of_system.setdefault(image_id, []).extend(row["captions"].values())
        if not samples_of_system:
            raise InputError(f"{path}: none of its captions is of an image of {system_name}; check the image ids")
    return samples_by_system
