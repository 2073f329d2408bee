"""MIMA and SPURTS with tiny random encoders of the paper's kinds (DistilBERT, RoBERTa), against the released steps."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capmeter_research.papers.smurf.mima import Mima, Spurts
from capmeter_research.papers.smurf.normalisation import NormalisationConstants, Scale

import capmeter
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.encoders import find_encoder
from capmeter.evaluation.base import RunContext
from capmeter.text.concepts import STOP_WORDS

torch = pytest.importorskip("torch", reason="needs the neural extra")
transformers = pytest.importorskip("transformers", reason="needs the neural extra")
pytestmark = pytest.mark.neural

SENTENCES = [
    "A dog runs over the wet grass.",
    "two cats, a sofa and the red-hot pan!",
    "the of and a",
    "dog",
    "a man who isn't there",
]
WORDS = ["the dog runs over wet grass", "two cats on a sofa", "a man is there and the pan isn't red-hot , ! - '"] * 20


def roberta(folder: Path) -> Path:
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
    best = [max(_information(head) for head in layer[0].double().numpy()) for layer in maps]
    return float(np.quantile(best, 0.5))


def _information(joint: Any) -> float:
    joint = joint / joint.sum()

    def entropy(masses: Any) -> float:
        masses = masses[masses > 0]
        return float(-(masses * np.log2(masses)).sum())

    x, y = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return 2 * (x + y - entropy(joint)) / (x + y)


@pytest.mark.parametrize("make", [roberta, distilbert], ids=["roberta", "distilbert"])
def test_equals_the_released_steps(make: Any, tmp_path: Path) -> None:
    folder = make(tmp_path)
    captions = CaptionSet.from_captions(Caption(str(k), str(k), text) for k, text in enumerate(SENTENCES))
    style = Spurts(encoder=str(folder)).measure(captions, RunContext()).values[:, 0]
    grammar = Mima(encoder=str(folder)).measure(captions, RunContext()).values[:, 0]
    expected = [released(folder, each, content_only=True) for each in SENTENCES]
    np.testing.assert_allclose(style, expected, atol=1e-5)
    expected = [1 - released(folder, each, content_only=False) for each in SENTENCES]
    np.testing.assert_allclose(grammar, expected, atol=1e-5)
    assert len(set(style.round(6))) > 3


def test_smurf_takes_two_encoders_to_its_signature(tmp_path: Path) -> None:
    first, second = (make(folder) for make, folder in ((distilbert, tmp_path / "a"), (roberta, tmp_path / "b")))
    standard = tmp_path / "standard.json"
    scale = Scale(0.4, 0.1)
    NormalisationConstants("by hand", 1, str(first), str(second), scale, scale, scale).save(standard)
    name = f'smurf(encoder="{first}+{second}",standard="{standard}")'
    scores = capmeter.score(candidates=["a dog runs"], references=[["the dog runs"]], metrics=name)[name]
    assert np.isfinite(scores.score)
    hashes = "+".join(find_encoder(str(folder)).sha256[:12] for folder in (first, second))
    assert hashes in scores.signature and "tokenizers" in scores.signature
