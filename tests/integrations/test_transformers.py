"""`compute_metrics` in a real `Seq2SeqTrainer` and `Trainer`: the numbers of `capmeter.score` on what they decode."""

# ruff: noqa: E402 (what needs the library is imported after the check that it is there)
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="needs transformers' trainer (pip install 'capmeter[trainer]')")
torch = pytest.importorskip("torch", reason="needs torch")
from support.thousand_captions import METRICS, expected, scores, thousand

import capmeter
from capmeter.core.errors import InputError
from capmeter.integrations.transformers import compute_metrics


def tokenizer_of(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = sorted({word for text in texts for word in text.split()})
    vocabulary = {word: k for k, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *words])}
    complete = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    complete.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=complete, **special)


class Words:
    """A tokenizer whose ids are numbers of words."""

    def __init__(self, texts: list[str]) -> None:
        self.words = ["", *dict.fromkeys(word for text in texts for word in text.split())]
        self.number = {word: k for k, word in enumerate(self.words)}
        self.pad_token_id = 0

    def encode(self, texts: list[str]) -> np.ndarray:
        rows = [[self.number[word] for word in text.split()] for text in texts]
        return np.array([row + [-100] * (24 - len(row)) for row in rows])

    def batch_decode(self, rows: Any, skip_special_tokens: bool) -> list[str]:
        assert skip_special_tokens and rows.min() >= 0
        return [" ".join(self.words[k] for k in row if k) for row in rows]


def test_a_thousand_captions_are_scored_as_by_score() -> None:
    candidates, references, _ = thousand()
    words = Words([*candidates, *(text for each in references for text in each)])
    labels = words.encode([each[0] for each in references])
    scorer = compute_metrics(words, METRICS, references=references)
    assert scorer((words.encode(candidates), labels)) == scores(expected())
    logits = np.eye(len(words.words))[np.maximum(words.encode(candidates[:50]), 0)]
    own_values = compute_metrics(words, "rouge-l")(((logits, "hidden states"), labels[:50]))
    single = capmeter.score(candidates=candidates[:50], references=[each[:1] for each in references[:50]],
                            metrics="rouge-l")  # fmt: skip
    assert own_values == scores(single)


@pytest.mark.neural
@pytest.mark.parametrize("several", [True, False])
def test_in_a_trainer_that_generates(tmp_path: Path, several: bool) -> None:
    import transformers
    from transformers import BartConfig, BartForConditionalGeneration, Seq2SeqTrainer, Seq2SeqTrainingArguments

    transformers.logging.set_verbosity_error()
    texts = ["a dog runs over the grass", "two cats sleep on a sofa", "a man waits", "a bus stops at the sea"] * 3
    people = [[text, f"{text} today"] for text in texts]
    tokenizer = tokenizer_of(texts)
    config = BartConfig(
        vocab_size=len(tokenizer), d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BartForConditionalGeneration(config)
    model.final_logits_bias[:, :4] = -1e4  # an untrained network that says words, not special tokens
    rows = [
        {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": [*ids, 2]} for ids in tokenizer(texts).input_ids
    ]
    arguments = Seq2SeqTrainingArguments(
        str(tmp_path), predict_with_generate=True, per_device_eval_batch_size=5, report_to=[], use_cpu=True,
        generation_max_length=12, disable_tqdm=True,
    )  # fmt: skip
    trainer = Seq2SeqTrainer(
        model,
        arguments,
        eval_dataset=rows,
        processing_class=tokenizer,
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, model),
        compute_metrics=compute_metrics(tokenizer, "rouge-l,cider-d,bleu-1", references=people if several else None),
    )
    result = trainer.evaluate()
    predicted = trainer.predict(rows).predictions
    decoded = tokenizer.batch_decode(np.where(predicted < 0, 0, predicted), skip_special_tokens=True)
    expected_scores = capmeter.score(
        candidates=[text.strip() for text in decoded],
        references=people if several else [[text] for text in texts],
        metrics="rouge-l,cider-d,bleu-1",
    )
    assert any(decoded)
    assert {f"eval_{name}": score for name, score in scores(expected_scores).items()}.items() <= result.items()


@pytest.mark.parametrize(
    ("predictions", "references", "sentence"),
    [
        (np.zeros((3, 4), int), [["a"]], "predicted 3 captions, but there are references of 1"),
        (np.zeros((3, 4)), None, r"shape \(3, 4\) of float64, expected token ids"),
        (np.zeros(3, int), None, r"shape \(3,\) of int64"),
    ],
)
def test_mistakes_get_a_sentence(predictions: Any, references: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        compute_metrics(Words(["a"]), "rouge-l", references=references)((predictions, predictions))


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite_are_an_error(broken: float) -> None:
    words = Words(["a dog runs"])
    logits = np.zeros((2, 3, len(words.words)))
    logits[1, 2] = broken
    with pytest.raises(InputError, match="row 1, position 2"):
        compute_metrics(words, "bleu-1")((logits, np.array([[1, 2, 3], [1, 2, -100]])))
    logits[1, 2] = [0.0, -np.inf, 1.0, -np.inf]  # suppressed tokens are no fault
    assert compute_metrics(words, "bleu-1")((logits, np.array([[1, 2, 3], [1, 2, -100]])))["bleu-1"] >= 0
