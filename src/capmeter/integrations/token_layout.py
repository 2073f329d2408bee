"""The layout of sequences of token ids, as models' `generate()` and labels have it: where a caption begins and ends.

    [start] [begin] caption end padding …       padding may also stand before; labels have -100 where nothing counts

>>> bart = TokenLayout(ends=(2,), starts=(2, 0), pad=1)
>>> bart.caption([2, 0, 11, 12, 2, 1, 1]), bart.caption([11, 12, 2, -100]), bart.caption([2, 2])
([11, 12, 2], [11, 12, 2], [2])
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from capmeter.core.errors import InputError
from capmeter.core.messages import describe, list_names

IGNORED = -100
_START_NAMES = ("decoder_start_token_id", "bos_token_id")


@dataclass(frozen=True)
class TokenLayout:
    """Which ids are not words of a caption.

    Args:
        ends: ids that end a caption; the first stands for all of them. Empty: captions have no end token.
        starts: ids that may stand before a caption, in their order.
        pad: the id of padding before and after.
        ignored: the id of positions that do not count.
    """

    ends: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    pad: int | None = None
    ignored: int = IGNORED

    @classmethod
    def from_model(
        cls, model: Any, *, eos: Any = None, bos: Any = None, pad: Any = None, ignored: int = IGNORED
    ) -> TokenLayout:
        """The layout of a model's token ids.

        Args:
            A BERT's tokenizer has neither start nor end, but its [CLS] and [SEP] are these.
            model: a tokenizer, a generation config or a model's config; None: all ids are given.
            eos, bos, pad: ids, or lists of them, that replace those of the model.
            ignored: the id of positions that do not count.

        Raises:
            InputError: the model has none of these ids, or an id is not a whole number.
        """
        if bos is None:
            bos = [token_id for id_name in _START_NAMES if (token_id := getattr(model, id_name, None)) is not None]
            bos = bos or getattr(model, "cls_token_id", None)
        for id_name in ("eos_token_id", "sep_token_id"):
            eos = getattr(model, id_name, None) if eos is None else eos
        pad = getattr(model, "pad_token_id", None) if pad is None else pad
        token_layout = cls(_ids(eos, "eos"), _ids(bos, "bos"), (*_ids(pad, "pad"), None)[0], ignored)
        if model is not None and not (token_layout.ends or token_layout.starts or token_layout.pad is not None):
            raise InputError(
                f"generation: a {type(model).__name__} names none of eos_token_id, bos_token_id, "
                "decoder_start_token_id and pad_token_id; expected a tokenizer, a generation config or a model's config"
            )
        return token_layout

    def caption(self, ids: Sequence[int]) -> list[int]:
        """The ids of the caption, with its end if it has one."""
        ids = [token_id for token_id in ids if token_id != self.ignored]
        begin_position = next((place for place, token_id in enumerate(ids) if token_id != self.pad), 0)
        for start_id in self.starts:
            following_ids = ids[begin_position + 1 :]
            # an end that begins nothing is the end of an empty caption
            if ids[begin_position : begin_position + 1] == [start_id] and not (
                start_id in self.ends and all(token_id == self.pad for token_id in following_ids)
            ):
                begin_position += 1
        ids = ids[begin_position:]
        end_position = next((place for place, token_id in enumerate(ids) if token_id in self.ends), None)
        if end_position is not None:
            return [*ids[:end_position], self.ends[0]]
        while ids and ids[-1] == self.pad:
            ids.pop()
        return ids

    def check_batch(self, batch: Sequence[Sequence[int]], vocabulary: Set[int]) -> None:
        """Raises if all sequences of a batch have an unnamed id at an end, which would change every reward in silence.

        Args:
            batch: sequences as sampled.
            vocabulary: the ids of all references.
        """
        if len(batch) < 2 or not all(batch):
            return
        first_id = batch[0][0]
        if first_id not in self.starts and all(
            len(ids) > 1 and ids[0] in self.ends and ids[1] not in (*self.ends, self.pad) for ids in batch
        ):
            raise InputError(
                f"every candidate begins with the end token {first_id}, as `generate()` of some models returns them "
                f"(BART): say so with bos={first_id}, or leave out the first token of each"
            )
        captions = [self.caption(token_ids) for token_ids in batch]
        if not all(captions):
            return
        first_tokens = {token_ids[0] for token_ids in captions}
        if len(first_tokens) == 1 and first_tokens.isdisjoint(vocabulary) and first_tokens.isdisjoint(self.ends):
            raise InputError(
                f"every candidate begins with {captions[0][0]}, which no reference contains; if it is the start token "
                f"of `generate()`, say so with bos={captions[0][0]}"
            )
        last = {token_ids[-1] for token_ids in captions}
        if last.isdisjoint(vocabulary) and not self.ends:
            raise InputError(
                f"every candidate ends with an id that no reference contains ({list_names(map(str, sorted(last)))}); "
                "name the end token and the padding: eos=…, pad=…"
            )


def _ids(value: Any, argument_name: str) -> tuple[int, ...]:
    """One id, several or none."""
    value = value.tolist() if hasattr(value, "tolist") else value
    given_ids = () if value is None else tuple(value) if isinstance(value, list | tuple) else (value,)
    if any(type(token_id) is not int for token_id in given_ids):
        raise InputError(f"{argument_name}: expected an id (a whole number) or a list of them, got {describe(value)}")
    return given_ids
