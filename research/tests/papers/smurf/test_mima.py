"""MIMA and SPURTS: the information flow by hand and by its definition, the released code's values for MiniLM, and its
steps with tiny random encoders of the paper's kinds (DistilBERT, RoBERTa).
"""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.smurf.mima import Mima, Spurts, information_flow, layer_flow
from capmeter_research.papers.smurf.normalisation import NormalisationConstants, Scale
from hypothesis import given
from hypothesis import strategies as st
from support.shared_files import read_document

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.core.errors import AssetError
from capmeter.encoders import Settings, find_encoder, load_encoder
from capmeter.evaluation.base import RunContext
from capmeter.evaluation.registry import parse
from capmeter.text.concepts import STOP_WORDS

SENTENCES = [
    "Two dogs run along the wet beach.",
    "a cat",
    "the of and",
    "!!! ???",
    "a cat",
    "red-hot peppers, in a bowl",
]
OTHER_SENTENCES = [
    "A dog runs over the wet grass.",
    "two cats, a sofa and the red-hot pan!",
    "the of and a",
    "dog",
    "a man who isn't there",
]
WORDS = ["the dog runs over wet grass", "two cats on a sofa", "a man is there and the pan isn't red-hot , ! - '"] * 20
encoder = pytest.mark.neural


def captions(sentences: list[str]) -> CaptionSet:
    return CaptionSet.from_captions(Caption(str(k), str(k), sentence) for k, sentence in enumerate(sentences))


def values(metric: Any, sentences: list[str], **settings: Any) -> np.ndarray:
    pytest.importorskip("torch", reason="needs the neural extra")
    return metric.measure(captions(sentences), RunContext(settings=Settings(**settings))).values[:, 0]


def by_definition(joint: np.ndarray) -> float:
    """Eq. 6 with its brackets, of one map."""
    joint = joint / joint.sum()

    def entropy(masses: np.ndarray) -> float:
        masses = masses[masses > 0]
        return float(-(masses * np.log2(masses)).sum())

    queries, keys = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return 2 * (queries + keys - entropy(joint)) / (queries + keys)


def test_by_hand() -> None:
    # rows (1, 0) and (1/2, 1/2): keys (3/4, 1/4); H(Y) = 2 - 3/4 log2 3, mean row entropy 1/2, H(X) = 1
    half = np.array([[1.0, 0.0], [0.5, 0.5]])[None, None, None]
    keys = 2 - 0.75 * np.log2(3)
    assert information_flow(half).item() == pytest.approx(2 * (keys - 0.5) / (keys + 1), abs=1e-12)


@given(st.integers(1, 3), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_is_the_normalised_mutual_information_of_the_map(captions: int, positions: int, seed: int) -> None:
    draws = np.random.default_rng(seed)
    maps = draws.dirichlet(np.full(positions, 0.2), size=(captions, 2, 3, positions))
    maps[..., 0] += maps[..., 1]
    maps[..., 1] = 0  # a hidden key
    flow = information_flow(maps)
    assert ((flow > -1e-12) & (flow <= 1 + 1e-12)).all()
    expected = [by_definition(one) for one in maps.reshape(-1, positions, positions)]
    np.testing.assert_allclose(flow.ravel(), expected, rtol=0, atol=1e-9)


@encoder
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mima", "spurts"])
def test_equals_the_released_code(shared: Path, name: str) -> None:
    official = read_document(shared / "oracles" / "smurf_mima_spurts_minilm_500.json.gz")
    # the extra captions were not stripped of full stops, so that "a dog ." is not what a metric would see
    extra = [row for row in official["extra"] if "." not in row["caption"]]
    got = values(parse(f"{name}(encoder=minilm)"), [*official["captions"], *(row["caption"] for row in extra)])
    assert len(got) == 511
    np.testing.assert_allclose(got, [*official[name], *(row[name] for row in extra)], rtol=0, atol=1e-5)


@encoder
@pytest.mark.parametrize("metric", [Mima(encoder="minilm"), Spurts(encoder="minilm")], ids=str)
def test_a_score_depends_on_the_caption_alone(metric: Any) -> None:
    expected = values(metric, SENTENCES)
    assert expected[1] == expected[4]
    assert ((expected > 0) & (expected < 1)).all()
    for k, sentence in enumerate(SENTENCES):
        assert values(metric, [sentence])[0] == pytest.approx(expected[k], abs=1e-6)
    np.testing.assert_allclose(values(metric, SENTENCES, tokens=8), expected, rtol=0, atol=1e-6)


@encoder
def test_case_full_stops_and_for_style_punctuation_do_not_matter() -> None:
    mima, spurts = Mima(encoder="minilm"), Spurts(encoder="minilm")
    assert values(mima, ["A Dog runs ."])[0] == values(mima, ["a dog runs"])[0]
    assert values(spurts, ["a dog, runs!"])[0] == pytest.approx(values(spurts, ["a dog runs"])[0], abs=1e-6)
    assert values(spurts, ["the dog runs"])[0] == pytest.approx(values(spurts, ["a dog runs"])[0], abs=1e-6)
    assert values(mima, ["the dog runs"])[0] != values(mima, ["a dog runs"])[0]


@encoder
def test_empty_captions_score_zero_and_long_ones_are_noted() -> None:
    pytest.importorskip("torch", reason="needs the neural extra")
    got = Mima(encoder="minilm").measure(captions(["", " .", "dog " * 2000, "a dog"]), RunContext())
    assert got.values[:2, 0].tolist() == [0, 0]
    assert (got.values[2:, 0] > 0).all()
    assert got.notes == {"truncated": ["2"]}


@encoder
@pytest.mark.parametrize("metric", [Mima(encoder="minilm"), Spurts(encoder="minilm")], ids=str)
def test_words_are_marked_by_the_change_of_the_score_without_them(metric: Any) -> None:
    full, *without = values(metric, ["two dogs run.", "dogs run.", "two run.", "two dogs"])
    first, empty = metric.explain(captions(["two dogs run.", ""]), RunContext())
    assert first.candidate == ("two", "dogs", "run.") and empty.candidate == ()
    assert [(mark.start, mark.kind) for mark in first.marks] == [
        (k, "raises" if full > score else "lowers") for k, score in enumerate(without)
    ]
    assert [mark.weight for mark in first.marks] == pytest.approx(full - np.array(without), abs=1e-6)


@pytest.mark.neural
def test_an_encoder_without_padding_hides_no_stop_words(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder(find_encoder("minilm"))
    monkeypatch.setattr(encoder.tokenizer, "pad_id", -1)
    with pytest.raises(AssetError, match="no padding token to replace stop words"):
        layer_flow(["a dog runs"], encoder, content_only=True)


def test_names() -> None:
    assert str(parse("mima")) == "mima"
    assert str(parse("mima(encoder=distilbert)")) == "mima"
    assert str(parse("spurts(encoder=minilm)")) == "spurts(encoder=minilm)"
    assert parse("spurts") == Spurts(encoder="distilroberta")


def roberta(folder: Path) -> Path:
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(exist_ok=True)
    trainer = ByteLevelBPETokenizer(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer.train_from_iterator(WORDS, vocab_size=330, min_frequency=1, special_tokens=special)
    trainer.save_model(str(folder))
    files = {"vocab_file": str(folder / "vocab.json"), "merges_file": str(folder / "merges.txt")}
    tokenizer = transformers.RobertaTokenizerFast.from_pretrained(str(folder), **files, model_max_length=40)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=42,
        initializer_range=0.5,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
    )
    transformers.RobertaModel(config).save_pretrained(folder)
    return folder


def distilbert(folder: Path) -> Path:
    import torch
    import transformers

    folder.mkdir(exist_ok=True)
    words = sorted({word for row in WORDS for word in row.replace("-", " - ").replace("'", " ' ").split()})
    letters = string.ascii_lowercase
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(pieces)) + "\n")
    tokenizer = transformers.BertTokenizerFast.from_pretrained(str(folder), model_max_length=40)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(6)
    config = transformers.DistilBertConfig(
        vocab_size=len(tokenizer), dim=16, n_layers=2, n_heads=2, hidden_dim=16, initializer_range=0.5
    )
    transformers.DistilBertModel(config).save_pretrained(folder)
    return folder


def released(folder: Path, sentence: str, *, content_only: bool) -> float:
    """The redundancy of one caption, step by step as the released code goes."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModel.from_pretrained(str(folder), attn_implementation="eager").eval()
    tokens = tokenizer.tokenize(sentence.lower().rstrip().replace(" .", "").replace(".", ""))
    if content_only:
        bare = [(token, token.replace("Ġ", "")) for token in tokens]
        words = [(token, word) for token, word in bare if word in STOP_WORDS or word not in list(string.punctuation)]
        tokens = [tokenizer.pad_token if word in STOP_WORDS else token for token, word in words]
    ids = [tokenizer.cls_token_id, *tokenizer.convert_tokens_to_ids(tokens), tokenizer.sep_token_id]
    inputs = torch.tensor([ids])
    with torch.no_grad():
        maps = model(
            inputs, attention_mask=(inputs != tokenizer.pad_token_id).long(), output_attentions=True
        ).attentions
    best = [max(by_definition(head) for head in layer[0].double().numpy()) for layer in maps]
    return float(np.quantile(best, 0.5))


@encoder
@pytest.mark.parametrize("make", [roberta, distilbert], ids=["roberta", "distilbert"])
def test_equals_the_released_steps(make: Any, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the neural extra")
    folder = make(tmp_path)
    style, grammar = (values(kind(encoder=str(folder)), OTHER_SENTENCES) for kind in (Spurts, Mima))
    expected = [released(folder, each, content_only=True) for each in OTHER_SENTENCES]
    np.testing.assert_allclose(style, expected, atol=1e-5)
    expected = [1 - released(folder, each, content_only=False) for each in OTHER_SENTENCES]
    np.testing.assert_allclose(grammar, expected, atol=1e-5)
    assert len(set(style.round(6))) > 3


@encoder
def test_smurf_takes_two_encoders_to_its_signature(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the neural extra")
    first, second = (make(folder) for make, folder in ((distilbert, tmp_path / "a"), (roberta, tmp_path / "b")))
    standard = tmp_path / "standard.json"
    scale = Scale(0.4, 0.1)
    NormalisationConstants("by hand", 1, str(first), str(second), scale, scale, scale).save(standard)
    name = f'smurf(encoder="{first}+{second}",standard="{standard}")'
    scores = capmeter.score(candidates=["a dog runs"], references=[["the dog runs"]], metrics=name)[name]
    assert np.isfinite(scores.score)
    hashes = "+".join(find_encoder(str(folder)).sha256[:12] for folder in (first, second))
    assert hashes in scores.signature and "tokenizers" in scores.signature
