"""What chat models leave around captions is found by `validate`, and removed by an explicit option, with notes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import capmeter as run_capmeter

import capmeter
from capmeter.captions.clean_texts import clean_chat_artifacts, render_markdown
from capmeter.captions.matching import CLEANED as NOTES
from capmeter.captions.text_checks import find_artefacts
from capmeter.captions.validation import examine
from capmeter.core.errors import InputError

CLEANED = NOTES["chat-artifacts"]

CAPTION = "A dog runs."
SAMPLES = {
    "reasoning": "<think>\nThe picture shows a cat? No.\n</think>\n\nA dog runs.",
    "reasoning whose beginning was in the prompt": "The picture shows a dog.</think>A dog runs.",
    "two kinds of reasoning": "<thinking>a</thinking><reasoning>b</reasoning> A dog runs.",
    "Qwen": "<|im_start|>assistant\nA dog runs.<|im_end|>",
    "Llama": "<|start_header_id|>assistant<|end_header_id|>\n\nA dog runs.<|eot_id|>",
    "Gemma": "<start_of_turn>model\nA dog runs.<end_of_turn>",
    "Phi": "<|user|>Describe.<|end|><|assistant|>A dog runs.<|end|>",
    "Mistral": "<s>[INST] Describe it. [/INST] A dog runs.</s>",
    "DeepSeek": "A dog runs.<｜end▁of▁sentence｜>",
    "LLaVA": "USER: <image>\nDescribe it. ASSISTANT: A dog runs.</s>",
    "T5": "<extra_id_0> A dog runs.</s>",
    "role": "ASSISTANT: A dog runs.",
    "Alpaca": "### Instruction:\nDescribe it.\n\n### Response:\nA dog runs.",
    "code fence": "```text\nA dog runs.\n```",
    "byte-level BPE": "AĠdogĠruns.",
    "SentencePiece": "▁A▁dog▁runs.",
    "BPE": "A d@@ og runs.",
    "WordPiece": "[CLS] A dog run ##s. [SEP] endseq",
    "byte tokens": "A dog<0x20>runs.",
    "gpt-oss": "<|channel|>analysis<|message|>A cat?<|end|><|start|>assistant<|channel|>final<|message|>A dog runs.",
    "gpt-oss without special tokens": "analysisA cat? No.assistantcommentaryA dog.assistantfinalA dog runs.",
    "gpt-oss with spaces": "analysis a cat? assistantfinal A dog runs.",
    "Kimi-VL": "◁think▷A cat? No.◁/think▷A dog runs.",
    "Magistral": "[THINK]A cat? No.[/THINK]A dog runs.",
    "roles on lines": "system\nBe brief.\nuser\nDescribe it.\nassistant\nA dog runs.",
    "Gemma without special tokens": "user\nDescribe it.\nmodel\nA dog runs.",
    "a box": r"$\boxed{\text{A dog runs.}}$",
    "tags and unknown words": "<MORE_DETAILED_CAPTION>A UNK dog runs.<time_end>",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_leftovers_are_found_and_removed(name: str) -> None:
    text = SAMPLES[name]
    assert find_artefacts(text)
    assert clean_chat_artifacts(text) == CAPTION
    assert find_artefacts(CAPTION) == []


@pytest.mark.parametrize(
    "text",
    [
        *("a dog runs on grass", "  spaces  are kept , as they are ", "a sign that says assistant: call me"),
        *("two <3 hearts and a > b", "**Bold** and <b>HTML</b> are words that the model chose", "a model: the T34"),
        *("caf\u00e9 \u72d7 \U0001f415", "she thinks </about> it", "analysis of a sign", "model", "assistant"),
    ],
)
def test_captions_are_left_as_they_are(text: str) -> None:
    assert clean_chat_artifacts(text) == text


@given(st.text(alphabet="ab <>|/\n`:#@tink_mesarINST[]Ġ▁", max_size=60))
def test_cleaning_ends_and_a_cleaned_text_has_no_tokens(text: str) -> None:
    assert "</s>" not in clean_chat_artifacts(text) and "Ġ" not in clean_chat_artifacts(text)


@pytest.mark.parametrize(
    ("text", "caption"),
    [
        ("a dog runs [/INST]", "a dog runs"),
        ("A dog runs.<|im_end|>\n<|im_start|>assistant\n", CAPTION),
        ("A dog runs. </think>", CAPTION),
        ("It is a dog. </think> A dog runs. </think>", CAPTION),
        ("A dog runs. <think>Is it?</think>", CAPTION),
        *(("ASSISTANT: A dog runs. ASSISTANT:", CAPTION), ("USER: Describe it. ASSISTANT:", "")),
        ("A dog runs.<|im_end|>\n<|im_start|>user\nAnything else?<|im_end|>", CAPTION),
        ("A dog runs.\n### Human: Anything else?\n### Assistant:", CAPTION),
        *(("<think>It is a dog.</think>", ""), ("[INST] Describe it. [/INST]", ""), ("analysisWe need a caption", "")),
        *(("◁think▷It is a dog.", ""), ("user\nDescribe it.\nassistant\n", ""), ("<|channel|>analysis It", "")),
        ("<|im_start|>user\nDescribe it.<|im_end|>\n<|im_start|>assistant\n", ""),
        ("### Instruction:\nDescribe it.\n\n### Response:\n", ""),
    ],
)
def test_what_nothing_follows_takes_no_caption_with_it(text: str, caption: str) -> None:
    assert clean_chat_artifacts(text) == caption


@pytest.mark.parametrize(
    ("text", "caption"),
    [
        *(("<grounding> a dog", "a dog"), ("<w>a</w> dog", "a dog"), ("##a dog", "a dog"), ("user: a dog", "a dog")),
        *(("a dog ###Response: a cat", "a cat"), ("<</SYS>> a dog", "a dog"), ("a dog<e@@ os>", "a dog")),
    ],
)
def test_what_is_found_is_removed_and_what_is_removed_is_found(text: str, caption: str) -> None:
    assert find_artefacts(text) and clean_chat_artifacts(text) == caption


PIECES = [
    *("<think>", "</think>", "<grounding>", "<w>", "</w>", "##", " ##a", "@@ ", "@@", "<0x3C>", "<</SYS>>", "[INST]"),
    *("[/INST]", "user: ", "assistant:", "###Response", "### human: ", "<|im_start|>assistant", "<|im_end|>", "</s>"),
    *("a dog", " ", "\n", "b", ".", "s>", "<", "▁", "Ġ", "```", "[CLS]", "<e", "os>", "UNK", "◁think▷", "◁/think▷"),
    *("analysis", "assistantfinal", "A", "<|channel|>", "final", "assistant\n", "user\n", "model\n", "[THINK]", "_"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_a_cleaned_text_has_nothing_that_cleaning_is_for(text: str) -> None:
    reasons = ("reasoning", "special tokens", "marks of a tokenizer")
    assert not [reason for reason in find_artefacts(clean_chat_artifacts(text)) if reason.startswith(reasons)]


PARTS = [" ##a", "<0x0A>", "#", "@", "user:", "analysisA", "<a_", "model\n", "◁think▷", "assistantfinal"]


@pytest.mark.parametrize("part", ["<think>", "</think>", "\n", "ASSISTANT: ", "```\n", "<|", "[INST]", *PARTS])
def test_long_texts_take_linear_time(part: str) -> None:
    start = time.process_time()
    clean_chat_artifacts(part * (1_000_000 // len(part)))
    assert time.process_time() - start < 5


def test_reasoning_that_was_cut_off_leaves_an_empty_caption() -> None:
    assert clean_chat_artifacts("<think>The picture shows") == ""


CANDIDATES = [
    {"image_id": 7, "candidate": SAMPLES["reasoning"], "references": ["a dog runs", "the dog is running"]},
    {"image_id": 9, "candidate": "two cats", "references": ["two cats sleep"]},
    {"image_id": 12, "candidate": SAMPLES["Qwen"], "references": ["a dog is running"]},
]
CLEAN = [row | {"candidate": CAPTION} if row["image_id"] != 9 else row for row in CANDIDATES]


def test_loading_cleans_on_request_with_notes_and_signature() -> None:
    assert CLEANED not in capmeter.load(CANDIDATES).notes
    captions = capmeter.load(CANDIDATES, clean="chat-artifacts")
    assert [caption.candidate for caption in captions] == [CAPTION, "two cats", CAPTION]
    assert captions.notes[CLEANED] == ["7", "12"]
    results = capmeter.score(captions, "rouge-l,cider-d")
    assert results.notes[CLEANED] == ["7", "12"]
    for name, expected in capmeter.score(capmeter.load(CLEAN), "rouge-l,cider-d").items():
        assert results[name].score == expected.score
        assert "|clean:chat-artifacts|" in results[name].signature
        assert "clean:" not in expected.signature
    with pytest.raises(InputError, match="clean is 'all', expected 'chat-artifacts', 'markdown' or None"):
        capmeter.load(CANDIDATES, clean="all")


def test_the_signature_has_the_option_whatever_it_changes() -> None:
    """Each system's and each part's alike: a score's signature does not depend on the texts of others."""
    rows = [{**row, "system": system} for row in (*CANDIDATES, CANDIDATES[1]) for system in ("a", "b")]
    rows = [row for row in rows if row["system"] == "a" or row["image_id"] == 9][:-1]
    systems = capmeter.load_systems(rows, clean="chat-artifacts")
    signatures = {capmeter.score(each, "rouge-l")["rouge-l"].signature for each in systems.values()}
    unchanged = capmeter.score(capmeter.load(CLEAN, clean="chat-artifacts", unicode="nfc"), "rouge-l")["rouge-l"]
    assert len(systems) == 2 and len(signatures) == 1 and "|clean:chat-artifacts|" in signatures.pop()
    assert "|clean:chat-artifacts|unicode:nfc|" in unchanged.signature


SYSTEMS = [
    {"image_id": image, "system": system, "candidate": text, "references": ["a dog runs"]}
    for image, system, text in (
        *((7, "A", "A dog runs.</s>"), (7, "A", "a dog</s>"), (9, "A", "a cat</s>")),
        *((7, "B", "a dog"), (9, "B", "a cafe\u0301")),
    )
]


def test_the_notes_have_final_ids_and_are_those_of_each_system() -> None:
    systems = capmeter.load_systems(SYSTEMS, clean="chat-artifacts", unicode="nfc")
    notes = {name: capmeter.score(each, "rouge-l").notes for name, each in systems.items()}
    assert notes["A"][CLEANED] == ["7#0", "7#1", "9"] and "normalised to Unicode nfc" not in notes["A"]
    assert CLEANED not in notes["B"] and notes["B"]["normalised to Unicode nfc"] == ["9"]


def test_events_are_cleaned_and_normalised_too() -> None:
    row: dict[str, Any] = {
        "image_id": "v",
        "timestamps": [[0, 4], [4, 9]],
        "sentences": ["a dog</s>", "a cafe\u0301</s>"],
    }
    row["references"] = [{"timestamps": [[0, 9]], "sentences": ["a cafe\u0301"]}]
    (caption,) = capmeter.load([row], clean="chat-artifacts", unicode="nfc")
    assert caption.candidate == "a dog a caf\u00e9" and caption.events is not None
    assert caption.events.candidate.sentences == ("a dog", "a caf\u00e9")
    assert caption.events.references[0].sentences == caption.references == ("a caf\u00e9",)


def test_validate_names_them_with_counts_and_ids() -> None:
    warnings = examine(CANDIDATES).warnings
    assert [each for each in warnings if each.startswith("reasoning such as") and "1 of the candidates (7)" in each]
    assert [each for each in warnings if each.startswith("special tokens") and "1 of the candidates (12)" in each]
    assert not [each for each in examine(CANDIDATES, clean="chat-artifacts").warnings if "scored as" in each]


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in CANDIDATES), "utf-8")
    result = run_capmeter("score", str(path), "-m", "rouge-l", "--no-intervals", "--clean", "chat-artifacts")
    assert "note: cleaned of chat artifacts: 2 captions: 7, 12" in result.stderr
    assert "clean:chat-artifacts" in result.stderr


PLAIN = "A brown dog lies on a sofa. A clock hangs on the wall."
BOLD = "A **brown dog** lies on a *sofa*. A `clock` hangs on the [wall](https://x.org)."


def test_marks_change_no_score(tmp_path: Path) -> None:
    rows = [{"image_id": k, "candidate": text, "references": [PLAIN]} for k, text in enumerate((PLAIN, BOLD))]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = capmeter.score(capmeter.load(path, clean="markdown"), "bleu-4,rouge-l")
    assert scores["bleu-4"].items["0"] == scores["bleu-4"].items["1"]
    assert scores.notes[NOTES["markdown"]] == ["1"]
    assert "clean:markdown" in scores["rouge-l"].signature
    assert capmeter.score(capmeter.load(path), "rouge-l")["rouge-l"].items["1"] < 1
    result = run_capmeter("score", str(path), "-m", "rouge-l", "--clean", "markdown")
    assert result.returncode == 0 and "1.0000" in result.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Description\n\n- **Dog:** it runs.\n1. A cat.", "Description\nDog: it runs.\nA cat."),
        ("| dog | cat |\n|---|---|\n| runs | sleeps |", "dog\ncat\nruns\nsleeps"),
        ("```\ncode\n```\nA dog.", "A dog."),
        ("a snake_case name, 2 * 3", "a snake_case name, 2  3"),
        ("- # Dog\n> - 1. it runs\n- - A cat.\n5. 3 dogs", "Dog\nit runs\nA cat.\n3 dogs"),
        ("![photo](x.png)", ""),
        ("", ""),
    ],
)
def test_what_is_rendered(text: str, expected: str) -> None:
    assert render_markdown(text) == expected
