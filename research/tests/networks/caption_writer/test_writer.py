"""The writer: learns by heart, decodes as without a cache, searches, samples by seed, resumes, refuses bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic_photos import THINGS, made_corpus, made_photo

torch = pytest.importorskip("torch", reason="training needs the neural extra")
pytest.importorskip("tokenizers", reason="the writer needs the neural extra")

from capmeter_research.common.corpus import Photo  # noqa: E402
from capmeter_research.common.transformer import decoding  # noqa: E402
from capmeter_research.common.transformer.decoding import BEGIN, END, PAD  # noqa: E402
from capmeter_research.networks.caption_writer.reading import LONGEST_TARGET, padded  # noqa: E402
from capmeter_research.networks.caption_writer.recipe import WriterRecipe  # noqa: E402
from capmeter_research.networks.caption_writer.training import sample_other_captions, train_writer  # noqa: E402
from capmeter_research.networks.caption_writer.writer import Writer, strength_folder  # noqa: E402
from capmeter_research.networks.caption_writer.writing import WriterSystem  # noqa: E402

from capmeter.core.checkpoints import Checkpoint  # noqa: E402
from capmeter.core.errors import AssetError, InputError  # noqa: E402

RECIPE = WriterRecipe(
    epochs=4,
    lr=5e-3,
    batch=24,
    pieces=330,
    width=32,
    hidden=64,
    heads=2,
    read_layers=1,
    write_layers=1,
    noise=0.0,
    lost=0.3,
    strengths=(100,),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writer")
    scores = train_writer([made_corpus("coco", 144)], RECIPE, folder, nouns=set(THINGS))
    assert 1 < scores["perplexity"] < 4
    return folder


@pytest.fixture(scope="module")
def writer(folder: Path) -> Writer:
    return Writer(folder)


READ = [list(made_photo("coco", number).captions[:1]) for number in range(0, 144, 6)] + [[]]


def test_it_writes_other_captions_of_what_it_reads(writer: Writer) -> None:
    photos = [made_photo("coco", number) for number in range(100, 144)]
    file_text = writer.write([photo.captions[:1] for photo in photos], WriterSystem(form="captions"))
    right = [text in photo.captions for photo, text in zip(photos, file_text, strict=True)]
    assert np.mean(right) > 0.9
    badly = writer.write([photo.captions[:1] for photo in photos], WriterSystem(kept=0.0))
    assert np.mean([text in photo.captions for photo, text in zip(photos, badly, strict=True)]) < 0.5


def test_it_learns_twenty_captions_by_heart(tmp_path: Path) -> None:
    """Reads a name, writes the sentence that goes with it."""
    texts = [
        f"Sentence {number} is {'abcdefghijklmnopqrst'[number] * 3} and {number * 7 % 20}." for number in range(20)
    ]
    corpus = made_corpus("coco", 1)
    photos = [Photo("coco", str(number), (f"n{number}", text)) for number, text in enumerate(texts)]
    kept_out = next(str(number) for number in range(1000) if Photo("coco", str(number), ("a",)).held_out)
    photos = [p for p in photos if not p.held_out] + [Photo("coco", kept_out, ("n0", texts[0]))]
    recipe = replace(RECIPE, lost=0.0, blank=0.0, captions=1.0, nouns=0.0, epochs=6, strengths=())
    train_writer([replace(corpus, photos=tuple(photos))], recipe, tmp_path, nouns=())
    output = Writer(tmp_path)
    assert output.write([[photo.captions[0]] for photo in photos], WriterSystem(form="captions")) == [
        photo.captions[1] for photo in photos
    ]


def without_cache(writer: Writer, source: Any) -> tuple[list[int], float]:
    """Greedy decoding with the whole network at every step."""
    pieces: list[int] = []
    total = 0.0
    while len(pieces) < LONGEST_TARGET:
        with torch.no_grad():
            scores = writer.module(source[None], torch.tensor([[BEGIN, *pieces]]))[0, -1]
        scores[:END] = -torch.inf
        best = int(scores.argmax())
        total += float(scores.log_softmax(-1)[best])
        if best == END:
            break
        pieces.append(best)
    return pieces, total


def matrix(writer: Writer) -> Any:
    return torch.from_numpy(padded(writer.sources(READ, WriterSystem()), PAD))


def test_greedy_decoding_equals_that_without_a_cache(writer: Writer) -> None:
    sources = matrix(writer)
    with torch.inference_mode():
        file_text = decoding.greedy_search(writer.module, sources)
    for source, result in zip(sources, file_text, strict=True):
        pieces, total = without_cache(writer, source[source != PAD])
        assert list(result.pieces) == pieces
        assert result.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_beam_search_is_at_least_as_likely_as_greedy(writer: Writer, width: int) -> None:
    sources = matrix(writer)
    with torch.inference_mode():
        greedy, beam = (
            decoding.greedy_search(writer.module, sources),
            decoding.beam_search(writer.module, sources, width),
        )
    for one, other in zip(greedy, beam, strict=True):
        assert other.log_probability >= one.log_probability
    targets = [torch.tensor([[*result.pieces, END]]) for result in beam]
    for source, target, result in zip(sources, targets, beam, strict=True):  # the sum that it says is the network's
        with torch.inference_mode():
            (total,) = decoding.log_probabilities(writer.module, source[None], target).tolist()
        assert result.log_probability == pytest.approx(total, abs=1e-4)


def test_sampling(writer: Writer) -> None:
    five, three = writer.sample(READ, 5, 0.8, seed=4), writer.sample(READ, 3, 0.8, seed=4)
    assert [each[:3] for each in five] == three
    assert writer.sample(READ, 3, 0.8, seed=5) != three
    assert writer.sample(READ[:4], 3, 0.8, seed=4) == three[:4]  # the others in the batch do not matter
    greedy = writer.write(READ)
    assert [each[0] for each in writer.sample(READ, 1, 1e-4)] == greedy
    assert len({text for each in writer.sample(READ, 20, 3.0) for text in each}) > 100


def test_samples_have_the_writers_probabilities(writer: Writer) -> None:
    sources = matrix(writer)[-1:].repeat(4000, 1)
    uniform = np.random.default_rng(0).random((4000, LONGEST_TARGET), dtype=np.float32)
    with torch.inference_mode():
        file_text = decoding.sample(writer.module, sources, uniform)
        scores = writer.module(sources[:1], torch.tensor([[BEGIN]]))[0, 0].clone()
        scores[:END] = -torch.inf
    expected = scores.softmax(-1)
    first = torch.tensor([result.pieces[0] if result.pieces else END for result in file_text])
    counts = torch.bincount(first, minlength=len(expected)) / 4000
    assert float((counts - expected).abs().max()) < 0.03


def test_log_probabilities(writer: Writer) -> None:
    local, foreign = "A dog runs in the beach.", "Beach the in runs dog a."
    likely, unlikely = writer.log_probabilities([local, foreign])
    assert likely > unlikely
    (names,) = writer.log_probabilities([local], [["There is a dog in a beach."]])
    assert names > likely
    assert writer.log_probabilities([]).shape == (0,)


def test_a_stopped_run_goes_on_to_the_same_weights(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capmeter_research.common.loop import Learner
    from capmeter_research.networks.caption_writer.training import WriterLearner

    class Stopped(Exception):
        pass

    losses = WriterLearner.losses
    count = 0

    def interrupted_losses(learner: WriterLearner, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count in (60, 190, 230):
            raise Stopped
        return losses(learner, *arguments)

    monkeypatch.setattr(Learner, "save_seconds", 0.0)
    monkeypatch.setattr(WriterLearner, "losses", interrupted_losses)
    recipe = replace(RECIPE, epochs=3, batch=4)
    for _ in range(3):
        with pytest.raises(Stopped):
            train_writer([made_corpus("coco", 60)], recipe, tmp_path / "stopped", nouns=set(THINGS))
    train_writer([made_corpus("coco", 60)], recipe, tmp_path / "stopped", nouns=set(THINGS))
    monkeypatch.setattr(WriterLearner, "losses", losses)
    train_writer([made_corpus("coco", 60)], recipe, tmp_path / "whole", nouns=set(THINGS))
    for version in ("", "100"):
        one, two = (Checkpoint.read(tmp_path / name / version) for name in ("stopped", "whole"))
        assert one.sha256 == two.sha256
        assert one.scores == two.scores


def test_weaker_versions_are_kept(folder: Path) -> None:
    weak, final = Checkpoint.read(folder / "100", "writer"), Checkpoint.read(folder, "writer")
    assert weak.scores["perplexity"] > final.scores["perplexity"]
    assert weak.selection == "the weights after 100 steps"
    assert final.data[0].name == "coco"
    assert {values.dtype for values in final.weights.values()} == {np.dtype(np.float16)}
    assert Writer(folder / "100").write(READ) != Writer(folder).write(READ)


def test_examples_read_other_captions_of_the_photo() -> None:
    bounds = np.array([0, 2, 5, 10])
    targets = np.random.default_rng(1).integers(0, 10, 5000)
    photo = np.searchsorted(bounds, targets, side="right") - 1
    local = sample_other_captions(bounds, photo, targets, replace(RECIPE, two=0.5, blank=0.1), np.random.default_rng(0))
    assert (photo[local.rows] == np.searchsorted(bounds, local.values, side="right") - 1).all()
    assert (local.values != targets[local.rows]).all()
    two = local.lengths == 2
    pairs = local.values[local.offsets[:-1][two][:, None] + [0, 1]]
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert not two[photo == 0].any()  # a photo of two captions has but one other
    assert two[photo == 2].mean() == pytest.approx(0.45, abs=0.05)
    assert (local.lengths == 0).mean() == pytest.approx(0.1, abs=0.02)
    visits = {(int(targets[row]), int(value)) for row, value in zip(local.rows, local.values, strict=True)}
    assert len(visits) == 2 + 6 + 20  # every other caption is read


def test_photos_are_needed(tmp_path: Path) -> None:
    few = made_corpus("coco", 1)
    with pytest.raises(InputError, match="give more photos"):
        train_writer([few], RECIPE, tmp_path, nouns=())
    with pytest.raises(InputError, match="multiples of 100"):
        replace(RECIPE, strengths=(150,))


def test_hostile_input(writer: Writer) -> None:
    captions = [[""], ["\x00"], ["🐕 日本語 <end><pad><begin>"], ["dog " * 5000], ["\n\t"], []]
    for form in ("captions", "words", "nouns"):
        for decode in ("greedy", "beam", "sample"):
            file_text = writer.write(captions, WriterSystem(form=form, decode=decode))
            assert len(file_text) == 6
            assert all("<" not in text and len(text) < 1000 for text in file_text)
    assert np.isfinite(writer.log_probabilities(["", "dog " * 5000, "🐕"])).all()
    assert writer.write([]) == []
    with pytest.raises(InputError, match=r"style 'poems': this writer was trained on coco.*; choose one by --style"):
        writer.write([["a"]], style="poems")
    with pytest.raises(InputError, match="expected one for each of 1 photos"):
        writer.write([["a"]], style=["coco", "coco"])
    with pytest.raises(InputError, match="expected a caption for each of 1 photos"):
        writer.write([["a"]], WriterSystem(near=0.5), similar=[])
    with pytest.raises(InputError, match="no similar photo"):
        writer.write([["a"]], WriterSystem(near=0.5))
    with pytest.raises(InputError, match="expected 1 or more"):
        writer.sample([["a"]], 0)
    with pytest.raises(InputError, match="temperature=0"):
        writer.sample([["a"]], 1, 0)


def test_damaged_checkpoints(folder: Path, tmp_path: Path) -> None:
    complete = Checkpoint.read(folder)
    for number, change in enumerate(
        (
            {"parameters": {}},
            {"parameters": {**complete.parameters, "subwords": "no tokenizer"}},
            {"parameters": {**complete.parameters, "shape": {"width": 64}}},
            {"weights": {}},
        )
    ):
        replace(complete, **change).save(tmp_path / str(number))  # type: ignore[arg-type]
        with pytest.raises(AssetError, match="train"):
            Writer(tmp_path / str(number))
    replace(complete, kind="parser").save(tmp_path / "parser")
    with pytest.raises(AssetError, match="expected a checkpoint of 'writer'"):
        Writer(tmp_path / "parser")


def test_the_writer_that_ships() -> None:
    shipped = Writer()
    assert shipped.styles == ("coco", "flickr30k")
    read = [["A brown dog runs on the beach."], ["Two men cook in a kitchen."]]
    (dog, men) = shipped.write(read, style="flickr30k")
    assert "dog" in dog
    assert "men" in men or "kitchen" in men
    weak = Writer(strength_folder("writer", "300"))
    assert np.mean(shipped.log_probabilities(["A man rides a horse on a beach."])) > np.mean(
        weak.log_probabilities(["A man rides a horse on a beach."])
    )
    said = Checkpoint.read(Path(strength_folder("writer", "1000")))
    assert sum(data.examples for data in said.data) == said.training["captions"] == 150_066
