"""Captions in scripts that are written without spaces between words.

>>> is_unsegmented("一只狗在沙滩上跑。"), is_unsegmented("개 한 마리가 달린다"), is_unsegmented("a 狗 runs")
(True, False, False)
>>> is_unsegmented("แมวสีดำนั่งบนเก้าอี้ไม้"), is_unsegmented("แมว สี ดำ นั่ง บน เก้าอี้ ไม้")
(True, False)
"""

from __future__ import annotations

import re

HAN_AND_KANA = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3040-\u30ff\u3105-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""The inside of a character class: Han with its extensions, kana, bopomofo, and their half-width forms."""
CJK = f"{HAN_AND_KANA}\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\uffa0-\uffdc"
"""The same with Hangul, whose words are mostly separated by spaces."""
SOUTHEAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f\u0f00-\u0fff"
"""Thai, Lao, Burmese, Khmer and Tibetan, which have spaces between sentences and clauses alone."""
_LONGEST_WORD = {CJK: 5, SOUTHEAST_ASIAN: 9}
"""The most characters of a script, vowels and tones counted, for each piece between spaces."""


def is_unsegmented(text: str) -> bool:
    """Whether a text is mainly in a script without spaces between words (or in Hangul), with hardly any spaces."""
    if text.isascii():
        return False
    for script, longest_word in _LONGEST_WORD.items():
        character_count = len(re.findall(f"[{script}]", text))  # compiled when it is first needed, which is rarely
        if 2 * character_count > len(text) and character_count > longest_word * len(text.split()):
            return True
    return False
