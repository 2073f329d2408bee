"""Captions of a writer's systems for many photos, as rows to train metrics with.

A row is `{"source", "photo", "system", "candidate", "read"}`: `read` has the places, from 0, of the photo's own
captions that the writer read. The photo's other captions are unknown to the writer, and they alone may be references.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capmeter.core.errors import InputError
from capmeter.text.tokenization.porter import stem
from capmeter.transforms.perturbations import is_content, strip_punctuation
from capmeter_research.common.corpus import Photo
from capmeter_research.networks.caption_writer.writer import Writer, strength_folder
from capmeter_research.networks.caption_writer.writing import WriterSystem


def machine_captions(
    photos: Sequence[Photo],
    systems: Mapping[str, WriterSystem],
    checkpoint: str | Path,
    *,
    each: int = 0,
    style: str | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """The rows of each system in turn, in the order of the photos.

    Args:
        photos: with more captions each than a system reads.
        systems: how each writes, by name.
        checkpoint: the writer's folder, with its weaker versions where a system names one.
        each: number of systems that write for each photo, sampled by the seed; 0: all.
        style: whose captions to imitate; None: each photo's source.
        seed: of what is read, lost and sampled; each system has its own choices.
        device: a torch device.

    Raises:
        InputError: a photo has too few captions.
        AssetError: a checkpoint is missing.
    """
    similar_captions: dict[int, str] = {}
    if any(writing.near for writing in systems.values()):
        for source in sorted({photo.source for photo in photos}):
            rows = [row for row, photo in enumerate(photos) if photo.source == source]
            similar_captions |= dict(zip(rows, near_captions([photos[row] for row in rows], seed), strict=True))
    write_for = [sample_systems(tuple(systems), each, photo, seed) for photo in photos]
    writers: dict[str, Writer] = {}
    for system, writing in systems.items():
        writer_folder = strength_folder(checkpoint, writing.strength)
        if writer_folder not in writers:
            writers[writer_folder] = Writer(writer_folder, device=device)
        rows = [row for row, system_names in enumerate(write_for) if system in system_names]
        batch_photos = [photos[row] for row in rows]
        read = [read_places(photo, writing.read, f"{seed} {system}") for photo in batch_photos]
        captions = writers[writer_folder].write(
            [[photo.captions[index] for index in places] for photo, places in zip(batch_photos, read, strict=True)],
            writing,
            style=[style or photo.source for photo in batch_photos],
            similar=[similar_captions[row] for row in rows] if writing.near else None,
            seed=_number(f"{seed} {system}"),
        )
        for photo, places, candidate in zip(batch_photos, read, captions, strict=True):
            row = {"source": photo.source, "photo": photo.number, "system": system, "candidate": candidate}
            yield {**row, "read": places}


def read_places(photo: Photo, count: int, salt: str) -> list[int]:
    """Which captions of a photo are read, by a hash, so that other photos do not matter.

    Args:
        photo: with its captions.
        count: number of captions that are read.
        salt: of the hash.

    Returns:
        The captions' positions, in order.

    Raises:
        InputError: the photo has no caption left as a reference.
    """
    if len(photo.captions) <= count:
        raise InputError(
            f"photo {photo.number} of {photo.source} has {len(photo.captions)} captions; expected more than the "
            f"{count} that are read, so that a reference is left"
        )
    order = np.random.default_rng(_number(f"{salt} {photo.source} {photo.number}")).permutation(len(photo.captions))
    return sorted(order[:count].tolist())


def unread(photo: Photo, places: Sequence[int]) -> tuple[str, ...]:
    """The captions that were not read: the references of what was written."""
    return tuple(caption for index, caption in enumerate(photo.captions) if index not in places)


def sample_systems(systems: tuple[str, ...], count: int, photo: Photo, seed: int) -> frozenset[str]:
    """The systems that write for a photo, by a hash, so that other photos do not matter.

    Args:
        systems: their names.
        count: number of systems; 0: all.
        photo: to write of.
        seed: of the hash.
    """
    if not count:
        return frozenset(systems)
    system_order = np.random.default_rng(_number(f"{seed} {photo.source} {photo.number}")).permutation(len(systems))
    return frozenset(systems[index] for index in system_order[:count].tolist())


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "little")


AMONG = 10
_ROWS = 500


def near_captions(photos: Sequence[Photo], seed: int = 0) -> list[str]:
    """For each photo, a caption of one of the `AMONG` photos most similar to it, chosen by the seed.

    Similarity is the cosine of the photos' stems of content words, weighted by idf.

    Args:
        photos: of one source, at least two for anything to be found; the only photo has "".
        seed: of the choices.
    """
    photo_count = len(photos)
    if photo_count < 2:
        return [""] * photo_count
    stem_vectors = _weighted(photos)
    columns = stem_vectors.T.tocsr()
    rng = np.random.default_rng(seed)
    neighbour_count = min(AMONG, photo_count - 1)
    similar_captions: list[str] = []
    for block_start in range(0, photo_count, _ROWS):
        similarity = (stem_vectors[block_start : block_start + _ROWS] @ columns).toarray()
        block_rows = np.arange(len(similarity))
        similarity[block_rows, block_start + block_rows] = -1
        nearest_photos = np.argpartition(-similarity, neighbour_count - 1, axis=1)[:, :neighbour_count]
        sampled_photos = np.sort(nearest_photos, axis=1)[block_rows, rng.integers(0, neighbour_count, len(block_rows))]
        similar_captions += [
            photos[other_photo].captions[int(rng.integers(len(photos[other_photo].captions)))]
            for other_photo in sampled_photos.tolist()
        ]
    return similar_captions


def _weighted(photos: Sequence[Photo]) -> Any:
    """Unit vectors of the photos: [photos, stems], sparse."""
    from scipy.sparse import csr_array

    word_ids: dict[str, int] = {}
    stems: dict[str, int] = {}  # of words as they are written; -1: no content word
    column_ids: list[int] = []
    stem_counts: list[int] = []
    row_offsets = [0]
    for photo in photos:
        document_counts: Counter[int] = Counter()
        for caption in photo.captions:
            for word in caption.split():
                if word not in stems:
                    plain_word = strip_punctuation(word)
                    stems[word] = word_ids.setdefault(stem(plain_word), len(word_ids)) if is_content(plain_word) else -1
                document_counts[stems[word]] += 1
        del document_counts[-1]
        column_ids += document_counts
        stem_counts += document_counts.values()
        row_offsets.append(len(column_ids))
    csr_parts = np.array(stem_counts, np.float32), np.array(column_ids, np.int32), np.array(row_offsets, np.int32)
    stem_vectors: Any = csr_array(csr_parts, (len(photos), len(word_ids)))
    photo_counts = np.bincount(stem_vectors.indices, minlength=len(word_ids))
    stem_vectors.data *= np.log(len(photos) / np.maximum(photo_counts, 1)).astype(np.float32)[stem_vectors.indices]
    norms: npt.NDArray[np.float32] = np.sqrt(np.asarray(stem_vectors.multiply(stem_vectors).sum(axis=1)).ravel())
    norms[norms == 0] = 1
    stem_vectors.data *= np.repeat(1 / norms, np.diff(stem_vectors.indptr))
    return stem_vectors
