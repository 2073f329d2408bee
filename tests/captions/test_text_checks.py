"""What makes scores misleading, seen in the texts: each kind, and what is none."""

from __future__ import annotations

import math
import random
import statistics
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.call_counts import steps
from support.shared_files import read_rows

import capmeter
from capmeter.captions import text_checks
from capmeter.captions.caption_set import Caption, CaptionSet
from capmeter.captions.load import load
from capmeter.captions.text_checks import (
    ReferenceFit,
    check_captions,
    compare_texts,
    find_artefacts,
    has_joined_references,
    is_blank,
)
from capmeter.captions.validation import examine
from capmeter.captions.words import find_untokenised
from capmeter.core.errors import InputError

REFERENCE = "the dog is running on the grass near two people"


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            "special tokens",
            "a dog<|im_end|>¦<image> a dog¦a dog </s>¦[INST] a dog¦ASSISTANT: a dog¦a dog<end_of_turn>¦"
            "### Response: a dog¦a dog <unk>¦<|begin_of_text|>a dog¦<<SYS>> a dog¦<MORE_DETAILED_CAPTION> a dog¦"
            "<time_begin>a dog¦<unused94>¦<im_start>a dog¦<IMG_CONTEXT>¦<image_soft_token>¦<OD>dog¦<EOT>¦[IMG] a dog¦"
            "a UNK dog¦assistant\na dog¦user\nDescribe it.\nassistant\na dog¦[unused0] a dog¦a dog [SEG]¦⁇ a dog¦"
            "[START] a dog [END]¦a dog <oov>¦a _UNK dog¦#START# a dog",
        ),
        (
            "reasoning",
            "◁think▷A dog?◁/think▷a dog¦A dog?◁/think▷a dog¦[THINK]A dog?[/THINK]a dog¦<thought>A dog?</thought>a dog¦"
            "analysis A dog? assistantfinal a dog¦assistantfinalA dog¦analysisWe need a caption",
        ),
        ("tags", "\\boxed{a dog}¦It is $\\boxed{\\text{a dog}}$¦<CONCLUSION>a dog</CONCLUSION>¦[caption] a dog"),
        (
            "a heading",
            "Caption 1: a dog¦1. Caption: a dog¦Option 2: a dog¦Description #3: a dog¦PRED 1: a dog¦Caption\na dog¦"
            "Title: a dog¦图片描述：一只狗",
        ),
        (
            "tokens for times and places",
            "00:00 - 00:05: a dog¦0:00-0:05 a dog¦00:00:01,000 --> 00:00:05,000\na dog¦[0.0s, 5.0s] a dog¦"
            "From 0.0s to 5.0s, a dog¦[00:00.000 --> 00:05.000] a dog¦(12,20),(300,400) a dog¦"
            "0s-3s: a dog¦0:03 - a dog¦[0.0-3.0] a dog¦<00:03> a dog¦t=3.0: a dog¦frame_3: a dog¦3.0 5.0 a dog",
        ),
        ("scores of a beam", "a dog (p=0.03)¦H-1\t-0.5\ta dog"),
        ("marks of a tokenizer", "▁a▁dog¦Ġa Ġdog¦a snow ##board¦a snow@@ board¦a dog<0x0A>"),
        ("HTML", 'a dog<br>¦<p>a dog</p>¦a dog &amp; a cat¦a dog &#39;s ball¦<span class="x">a dog</span>'),
        (
            "Markdown",
            "**a dog**¦# A dog¦- a dog\n- a cat\n¦1. A dog\n2. A cat\n¦```a dog```¦[dog](https://x.org)¦"
            "| a dog | a cat |\n|---|---|\n",
        ),
        ("JSON or Python", "{\"caption\": \"a dog\"}¦['a dog']¦[\"a dog\"]¦{'text': 'a dog'}¦b'a dog'¦ b'a dog'"),
        ("escape sequences", 'caf\\u00e9 with a dog¦a dog\\n¦a dog\\nA cat¦a \\"dog\\" runs¦caf\\xc3\\xa9'),
        ("wrongly decoded", "a cafÃ© table¦the dogâ€™s ball¦a dog ðŸ¶¦5Â° outside"),
        (
            "refusals",
            "I'm sorry, but I can't help with that.¦As an AI language model, I see no image.¦I cannot see the image¦"
            "I am unable to view images.¦Please provide an image.¦I apologize, there is an error¦"
            "please attach the image¦We are very sorry, there is an error¦i am not able to see the picture¦"
            "I cant see a picture¦I can’t identify people¦Please upload an image¦I can't see.¦"
            "I don't see an image attached.¦No image was provided.¦“I cannot view images”¦"
            "As a text-based AI, I see no image.¦It looks like the image didn't upload.¦I must decline to describe it.¦"
            "Unfortunately, I cannot see an image.¦Je suis désolé, mais je ne peux pas voir l'image.¦"
            "抱歉，我无法查看图片。¦Je ne peux pas voir l'image.¦Es tut mir leid, aber ich sehe kein Bild.¦"
            "Ich kann das Bild nicht sehen.¦Lo siento, no puedo ver la imagen.¦"
            "申し訳ありませんが、画像を表示できません。¦作为一个AI语言模型，我看不到图片。¦"
            "Извините, но я не могу видеть изображение.¦죄송하지만 이미지를 볼 수 없습니다.¦"
            "Yes.¦There is no image.¦Sorry, I cannot do that.¦Unable to comply.¦"
            "Cannot describe the image.¦How can I assist you today?¦对不起¦画像が見えません。¦ขออภัย¦Beklager",
        ),
        (
            "error messages",
            "HTTPSConnectionPool(host='x.org', port=443): Max retries exceeded with url: /v1¦Read timed out.¦"
            "404 Not Found¦Connection aborted.¦upstream connect error or disconnect/reset before headers¦"
            "401 Unauthorized¦Bad Request¦The server is overloaded or not ready yet.¦Cannot connect to host x.org:443¦"
            "<html><head><title>502 Bad Gateway¦Insufficient balance¦Your credit balance is too low to access the API¦"
            "Incorrect API key provided: sk-x¦model 'llava' not found, try pulling it first¦"
            "This model's maximum context length is 4096 tokens.¦prompt is too long: 210000 tokens > 200000 maximum¦"
            "429 RESOURCE_EXHAUSTED. {'error': {'code': 429}}¦Model is overloaded. Please try again later.¦"
            "余额不足,请充值。¦我遇到了一些问题，请您稍后重试~¦internal error happened¦"
            "The `response.text` quick accessor requires the response to contain a valid `Part`¦block_reason: SAFETY¦"
            "data_inspection_failed¦Output data may contain inappropriate content.¦FinishReason.SAFETY¦"
            "PROHIBITED_CONTENT¦cannot identify image file <_io.BytesIO object at 0x7f>¦"
            "image file is truncated (3 bytes not processed)¦moov atom not found¦No such file or directory¦"
            "Could not process image¦illegal base64 data at input byte 5¦list index out of range¦"
            "'NoneType' object has no attribute 'strip'¦Expecting value: line 1 column 1 (char 0)¦KeyError('content')¦"
            "string indices must be integers¦generate() got an unexpected keyword argument 'images'¦"
            "CUDA error: device-side assert triggered¦expected scalar type Half but found Float¦"
            "No module named 'torch'¦the JSON object must be str, bytes or bytearray, not NoneType¦"
            "Skipped¦OOM¦ReadTimeout¦Sliding window must be a positive integer, but got sliding_window = 0¦"
            "Killed¦quota exceeded¦Segmentation fault (core dumped)¦Premature end of JPEG file¦model is loading¦"
            "图片加载失败¦エラーが発生しました¦Произошла ошибка¦Une erreur est survenue¦Đã xảy ra lỗi",
        ),
        (
            "None, a number or a file name",
            "None¦null ¦NaN¦n/a¦undefined¦[]¦391895¦-1¦COCO_000000391895.jpg¦a/b.MP4¦[NULL]¦0.5¦[1, 2]¦{{caption}}",
        ),
        ("control or replacement", "a\0dog¦a dog\ufffd¦a\u2028dog"),
        ("invisible characters", "a\u200bdog¦\ufeffa dog¦a\xaddog¦a \u202edog"),
        ("more emoji than words", "dog 🐕🐕¦flags 🇫🇷¦" + "🐕. " * 60),
        ("60 words and more without the end of a sentence", "a dog runs " * 20 + "¦" + "ein Hund — läuft " * 20),
        ("more than 5,000 words", "A dog runs on the grass. " * 900),
        ("repeated phrases", "a dog on a mat and " * 8 + "¦" + "It is red. " * 12 + "¦" + "dog " * 30),
    ],
)
def test_each_kind_is_found(kind: str, texts: str) -> None:
    for text in texts.split("¦"):
        assert any(reason.startswith(kind) for reason in find_artefacts(text)), text


@pytest.mark.parametrize(
    "text",
    [
        *("A dog & a cat play.", "a man's 'dog' - on the grass (2 < 3)", "a #1 player @ home", "2 dogs; 3 cats"),
        *("a sign that says I'm sorry", "a woman holds a t-shirt * and * a hat", "a user on a computer", "polar_bear"),
        *("The server is carrying plates to a table.", "A phone that shows 404 Not Found", "an analysis of a dog"),
        *("A shop that is open from 9:00 - 17:00", "a dog at 5:30", "a man with an object I can't identify"),
        *("Two screens with an invalid token and a JSON response", "Model trains on a track, of the 1940s - 1950s"),
        *("Laptop with JSON code and a URL on the monitor", "Server rack with GPU and CPU cables", "抱歉的表情"),
        *("Out of memory cards, a shop closes", "Permission denied sign on a door", "Event loop road with cars"),
        *("Model trains are overloaded with coal", "Maaf kafe di Jakarta", "すみませんと書かれた看板"),
        *("I cannot see the sink in the bathroom", "👩‍👩‍👧‍👦 a family 🐕", "می‌خواهم", "一只狗在沙滩上跑"),
        "a man, a plan, a canal and a panama hat on a table near the window in the room of a house by the sea",
        *("a sign with the words provide and cannot", "Ein Hund läuft über die Straße", "Waiting for a request"),
    ],
)
def test_ordinary_captions_have_no_artefact(text: str) -> None:
    assert find_artefacts(text) == []


@pytest.mark.parametrize("name", ["coco_val2017", "flickr8k", "flickr30k", "long"])
def test_human_references_are_no_errors(shared: Path, name: str) -> None:
    references = [
        text for row in read_rows(shared / "data" / f"{name}_references.jsonl.gz") for text in row["references"]
    ]
    reasons = {reason for text in references for reason in find_artefacts(text)}
    assert not [reason for reason in reasons if reason.startswith(("error", "reasoning", "special", "tokens"))]


@given(st.text(max_size=300))
def test_any_text_is_checked(text: str) -> None:
    find_artefacts(text)
    compare_texts(text, [REFERENCE])
    assert is_blank(text) or text.strip()


def test_blank_is_what_nobody_sees() -> None:
    assert all(map(is_blank, ["", " ", "\n\t", "\u200b", "\u202e", "\ufeff", "\u0301", "\0", "\ue000", "\u3000 "]))
    assert not any(map(is_blank, ["a", ".", "🐕", "狗", "é"]))


OTHER_LANGUAGE = ["in another language than its references"]


@pytest.mark.parametrize(
    ("candidate", "reference", "said"),
    [
        ("ein Hund läuft auf der Straße", "the dog is on the road", OTHER_LANGUAGE),
        *(("собака бежит", "the dog is on the road", OTHER_LANGUAGE), ("كلب يركض", "犬が走っています", OTHER_LANGUAGE)),
        ("一只狗在沙滩上跑", "a dog runs on the beach", OTHER_LANGUAGE),
        ("a dog on the road", "ein Hund ist auf der Straße", OTHER_LANGUAGE),
        ("a dog on the road", "一只狗在沙滩上跑", OTHER_LANGUAGE),
        # names and single words
        ("Barack Obama and Angela Merkel", "two people are at the table", []),
        *(("Barack Obama", "a man in a suit is at the table", []), ("dog", "the dog is on the road", [])),
        *(("café in the street", "a cafe on the street", []), ("der Hund", "ein Hund ist auf der Straße", [])),
        *(
            ("犬が走っている", "犬カフェの写真です", []),
            ("...", "the dog is on the road", []),
            ("LA", "in LA at night", []),
        ),
    ],
)
def test_another_language_or_script_than_the_references(candidate: str, reference: str, said: list[str]) -> None:
    assert compare_texts(candidate, [reference]) == said


@pytest.mark.parametrize(
    ("candidate", "references", "joined"),
    [
        ("a dog runs", ["a dog runs on grass ||| the dog is running"], True),
        ("a dog runs", ["a dog runs\nthe dog is running\na puppy plays"], True),
        ("a dog runs on the grass near a red house", ["A dog runs.\nThe grass is green.\nIt rains."], False),
        ("a dog", ["1. a brown dog runs on grass\n2. the old dog is running fast over there"], True),
        ("a dog runs", ["a dog runs\n\nthe dog is running"], False),  # paragraphs
        ("a dog runs\nit is brown", ["a dog runs\nthe dog is brown"], False),
        ("a dog runs", ["a dog runs ||| the dog is running", "a puppy"], False),
        *(("a dog runs", ["a sign with a | on it"], False), ("a dog runs", ["a dog runs |||"], False)),
        ("a dog runs", ["a dog runs ||| ||| the dog is running |||"], True),
        *(("a dog runs", [f"a dog runs{mark}the dog is running"], True) for mark in ("###", "&&", "<br/>", "[sep]")),
    ],
)
def test_several_references_joined_to_one_text_are_noted(candidate: str, references: list[str], joined: bool) -> None:
    notes = capmeter.score(candidates=[candidate], references=[references], metrics="bleu-1").notes
    assert any("joined to one text" in reason for reason in notes) == joined


@pytest.mark.parametrize("space", [" ", "\n", "\r", "\u2028"])
def test_long_white_space_in_a_reference_takes_no_time(space: str) -> None:
    started = time.perf_counter()
    assert not has_joined_references("a dog", [f"a dog{20_000 * space}runs"])
    assert time.perf_counter() - started < 1


def test_unicode_forms_are_noted_and_normalised_on_request() -> None:
    candidates = {"1": "mot cha\u0300ng trai", "2": "Ａ ｄｏｇ runs", "3": "a cat"}
    references = {"1": ["mot ch\u00e0ng trai"], "2": ["A dog runs"], "3": ["a cat"]}
    notes = capmeter.score(candidates=candidates, references=references, metrics="bleu-1").notes
    assert [(reason.partition(" on one")[0], ids) for reason, ids in notes.items() if "--unicode" in reason] == [
        ("accents as characters of their own (Unicode NFD)", ["1"]),
        ("full-width letters", ["2"]),
    ]
    captions = capmeter.load(candidates, references, unicode="nfkc")
    assert capmeter.score(captions, "bleu-1")["bleu-1"].score == pytest.approx(1.0)
    assert captions.notes["normalised to Unicode nfkc"] == ["1", "2"]
    composed = capmeter.load(candidates, references, unicode="nfc")
    assert composed["1"].candidate == "mot ch\u00e0ng trai" and composed["2"].candidate == "Ａ ｄｏｇ runs"
    assert "normalised to Unicode nfc" not in capmeter.load(["a"], unicode="nfc", on_missing="keep").notes
    with pytest.raises(InputError, match="unicode is 'nfd'"):
        capmeter.load(candidates, references, unicode="nfd")


def captions_of(candidates: list[str], references: list[str]) -> CaptionSet:
    return CaptionSet.from_captions(
        Caption(str(k), str(k), candidate, (reference,))
        for k, (candidate, reference) in enumerate(zip(candidates, references, strict=True))
    )


def test_a_prompt_that_all_captions_begin_with() -> None:
    words = ["dog", "cat", "bus", "tree", "house", "boat", "horse", "bird", "cup", "chair", "lamp", "sofa"]
    texts = [f"a {word}" for word in words]
    captions = captions_of([f"Describe this image briefly: {text}" for text in texts], texts)
    (reason,) = check_captions(captions)
    assert reason == 'begins with "Describe this image briefly:", as nearly all do: a prompt?'
    assert check_captions(captions_of([f"{text} on a mat" for text in texts], texts)) == {}


@pytest.mark.parametrize("count", [10, 25])
def test_no_word_in_common_with_any_reference(count: int) -> None:
    candidates = [f"zq{k:012}" for k in range(count)]
    captions = captions_of(candidates, [f"a dog runs over hill number {k}" for k in range(count)])
    fit = ReferenceFit.measure(captions)
    assert "share no more words with their own references (0%)" in (fit.describe_mismatch() or "")


@pytest.mark.parametrize(
    ("candidate", "reference", "nouns"),
    [
        ("一张{}的照片", "画面中有{}", "红色汽车 小猫 大象 飞机 老人 蛋糕 足球 钟楼 海滩 滑雪者 香蕉 电脑"),
        ("{}", "画面中有{}", "红色汽车 小猫 大象 飞机 老人 蛋糕 足球 钟楼 海滩 滑雪者 香蕉 电脑"),
        (
            "{}の写真",
            "{}が写っている",
            "赤い車 小猫 象 飛行機 老人 ケーキ サッカー 時計台 海辺 スキーヤー バナナ パソコン",
        ),
    ],
)
def test_words_of_chinese_and_japanese_are_compared(candidate: str, reference: str, nouns: str) -> None:
    display = nouns.split() + nouns.split()[::-1]
    candidates, references = ([text.format(noun) for noun in display] for text in (candidate, reference))
    captions = captions_of(candidates, references)
    fit = ReferenceFit.measure(captions)
    assert fit.own_share > 0.3 and fit.describe_mismatch() is None


FUNCTION_WORDS = sorted(set().union(*text_checks._FUNCTION_WORDS.values()))


@given(*[st.lists(st.sampled_from([*FUNCTION_WORDS, "dog", "Hund", "chien"]), min_size=1, max_size=12)] * 2)
def test_languages_equal_a_slow_count(candidate: list[str], reference: list[str]) -> None:
    """The language with most function words in the reference, none of which the candidate has, but two of another."""
    words_of = text_checks._FUNCTION_WORDS
    hits = {name: sum(word in words for word in reference) for name, words in words_of.items()}
    language = max(hits, key=lambda name: hits[name])
    has_another = max(sum(word in words for word in candidate) for words in words_of.values()) >= 2
    differs = hits[language] >= 2 and not words_of[language] & set(candidate) and has_another
    result = compare_texts(" ".join(candidate), [" ".join(reference)])
    assert ("in another language than its references" in result) == differs
    english = sum(word in words_of["en"] for word in candidate)
    most = max(sum(word in words for word in candidate) for words in words_of.values())
    assert text_checks.has_foreign_words(" ".join(candidate)) == (most > english)


def test_equal_captions_are_checked_once() -> None:
    """A megabyte of short lines takes no longer than it is read."""
    captions = captions_of(["ein Hund", "x"] * 500, ["der Hund rennt", "y"] * 500)
    assert steps(lambda: check_captions(captions)) < 40 * len(captions)
    texts, references = ["ein Hund", "x"] * 500, [["der Hund rennt"], ["y"]] * 500
    assert steps(lambda: examine(texts, references)) < 400 * len(captions)


def test_validate_and_score_say_the_same_once() -> None:
    candidates = {"1": "a dog<|im_end|>", "2": "I'm sorry, I cannot see the image", "3": "a cat"}
    references = {"1": ["a dog", "🐕"], "2": ["", "a bus"], "3": ["\u200b .", "a cat"]}
    notes = capmeter.score(candidates=candidates, references=references, metrics="bleu-1").notes
    assert notes["special tokens such as <eos>, which would be scored as words"] == ["1"]
    assert notes["refusals, which say nothing of the image"] == ["2"]
    assert notes["empty reference"] == ["2", "3"]
    warnings = examine(candidates, references).warnings
    kinds = ("special", "refusals", "empty reference")
    assert [sum(kind in warning for warning in warnings) for kind in kinds] == [1, 1, 1]
    assert "empty reference: 2 (2, 3)" in warnings


def test_validate_warns_of_lengths_that_cider_d_does_not_bear() -> None:
    candidates = {str(k): f"a dog number {k} runs " * 4 for k in range(5)}
    references = {str(k): [f"a dog number {k} runs"] for k in range(5)}
    (warning,) = (each for each in examine(candidates, references).warnings if "CIDEr-D" in each)
    assert warning.startswith("candidates are 15 words longer than references on average")
    assert not any("CIDEr-D" in each for each in examine(references, references, side="candidates").warnings)


def test_lengths_of_detailed_captions() -> None:
    long = " ".join(f"word{k}" for k in range(70)) + "."
    captions = captions_of(
        [long, "a dog runs", long, "a dog"], ["a dog runs on the grass", long, long, "a cat on a mat"]
    )
    notes = check_captions(captions)
    assert [reason.partition(":")[0] for reason in notes] == [
        "more than three times as long as its references",
        "less than a third as long as its references",
        "candidate is one of its own references",
    ]
    assert [len(ids) for ids in notes.values()] == [1, 1, 1]


def test_score_says_up_to_which_length_a_metric_is_meaningful() -> None:
    long = " ".join(["a dog runs on the grass"] * 11)
    results = capmeter.score(candidates=[long, "a dog"], references=[["a dog"]] * 2, metrics=["cider-d", "meteor"])
    (note,) = [note for note in results["cider-d"].notes if note.startswith("longer than")]
    assert "the 60 words up to which cider-d is meaningful" in note and "use capmeter" in note
    assert results["cider-d"].notes[note] == ["0"]
    assert not any(note.startswith("longer than") for note in results["meteor"].notes)


SUBJECTS = ["dog", "cat", "girl", "boy", "bus", "train", "horse", "bird", "man", "woman", "chef"]
PLACES = ["beach", "street", "kitchen", "park", "river", "forest", "stage", "roof", "field", "boat", "bridge"]
CANDIDATES = [f"a {SUBJECTS[k % 11]} in the {PLACES[k * 3 % 11 - k // 11]}" for k in range(24)]
REFERENCES = [[f"the {text.split()[1]} stays", f"somewhere in the {text.split()[-1]}"] for text in CANDIDATES]


def measure(candidates: list[str], references: list[list[str]]) -> ReferenceFit:
    return ReferenceFit.measure(load(candidates, references))


def test_shares_and_lengths_by_hand() -> None:
    fit = measure(["a dog runs", "two cats"], [["a dog"], ["a cat sleeps", "two cats sleep"]])
    assert (fit.candidate_words, fit.reference_words) == (2.5, pytest.approx(8 / 3))
    assert fit.vocabulary_share == 4 / 5  # a, dog, two, cats; not: runs
    assert fit.own_share == pytest.approx((2 / 3 + 1) / 2)
    assert fit.other_share == pytest.approx((1 / 3 + 0) / 2)
    assert fit.excess == pytest.approx(2)  # differences 1/3 and 1: mean 2/3, standard error 1/3
    assert fit.describe_mismatch() is None  # two images say nothing


def test_references_of_other_images_or_joined_into_one_text_are_a_mismatch() -> None:
    assert measure(CANDIDATES, REFERENCES).describe_mismatch() is None
    message = measure(CANDIDATES, REFERENCES[5:] + REFERENCES[:5]).describe_mismatch()
    assert message is not None and "belong to other images, or are in another order" in message
    joined = [[" ".join(texts * 4)] for texts in REFERENCES]
    message = measure(CANDIDATES, joined).describe_mismatch()
    assert message is not None and "joined into one text" in message
    assert [text for text in examine(CANDIDATES, joined).warnings if "joined into one text" in text]
    tokens = measure(CANDIDATES, [texts[0].split() for texts in REFERENCES]).describe_mismatch()
    assert tokens is not None and "a list of its tokens" in tokens
    assert "of an image: tokens?" in str(check_captions(load({"7": ["a", "dog"]}, {"7": ["a dog", "one dog"]})))
    assert "tokens" not in str(check_captions(load({"7": ["一只狗在跑", "狗在草地上"]}, {"7": ["一只狗", "狗"]})))
    assert measure(["a photo of a dog"] * 24, REFERENCES).describe_mismatch() is None


@pytest.mark.parametrize("seed", range(6))
def test_equals_a_slow_recomputation(seed: int) -> None:
    """Captions that repeat, references in common, empty ones of both."""
    sampled = random.Random(seed)

    def text() -> str:
        return " ".join(sampled.choice(["a", "b", "c", "d", "e", "f"]) for _ in range(sampled.randrange(5)))

    texts = [text() for _ in range(8)]
    candidates = [sampled.choice(texts) for _ in range(40)]
    references = [[sampled.choice(texts) for _ in range(sampled.choice((1, 1, 2, 3)))] for _ in range(40)]
    fit = measure(candidates, references)
    words = [set(each.split()) for each in candidates]
    names = [set(" ".join(each).split()) for each in references]
    with_words = [k for k in range(40) if words[k]]
    local = [len(words[k] & names[k]) / len(words[k]) for k in with_words]
    pairs = [(k, with_words[(at + len(with_words) // 2) % len(with_words)]) for at, k in enumerate(with_words)]
    other = [len(words[k] & names[away]) / len(words[k]) for k, away in pairs if k != away]
    differences = [a - b for a, b in zip(local, other, strict=True)]
    excess = statistics.fmean(differences) / statistics.stdev(differences) * math.sqrt(len(differences))
    expected = ReferenceFit(
        candidate_words=statistics.fmean(len(each.split()) for each in candidates),
        reference_words=statistics.fmean(len(each.split()) for texts in references for each in texts),
        vocabulary_share=len(set().union(*words) & set().union(*names)) / len(set().union(*words)),
        own_share=statistics.fmean(local),
        other_share=statistics.fmean(other),
        other_count=len(other),
        excess=excess,
        distinct_count=len(set(candidates)),
        has_single_references=False,
    )
    for name, value in vars(expected).items():
        assert getattr(fit, name) == pytest.approx(value, abs=1e-12), name


def test_untokenised_texts() -> None:
    assert find_untokenised(["a dog .", "a dog", "in the u.s.", "u. s. .", "", "3.", "A dog!", "a dog. "]) == [
        "A dog!",
        "a dog. ",
    ]


@pytest.mark.parametrize("system", ["m2_transformer", "llava15_7b_default", "smurf_human"])
def test_real_captions_fit_and_those_of_other_images_do_not(shared: Path, system: str) -> None:
    rows = read_rows(shared / "data" / "coco_karpathy_test_captions.jsonl.gz")[:300]
    candidates = [row["captions"][system] for row in rows]
    references = [row["references"] for row in rows]
    for count in (20, 50, 300):
        assert measure(candidates[:count], references[:count]).describe_mismatch() is None
        shifted = references[7:count] + references[:7]
        assert measure(candidates[:count], shifted).describe_mismatch() is not None
