"""A judge on this machine: a model of the transformers library, greedy, with the probabilities of every token.

With pictures, a vision-language model with a processor (LLaVA, Qwen-VL …); without, any causal language model. Weights
come from a folder or the local hub cache; nothing is downloaded. The prompt goes through the model's chat template,
where it has one.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from capmeter.encoders.joint import Precision
from capmeter.encoders.models import EncoderFiles, find_encoder, require_neural
from capmeter.errors import AssetError, InputError
from capmeter.images.reading import read_picture
from capmeter.metrics.judge.answers import Answer, Failure, Question, Token
from capmeter.settings import Settings

_ALTERNATIVES = 20
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)


class LocalJudge:
    """A model and its processor; questions are answered one at a time."""

    def __init__(self, files: EncoderFiles, running: Precision) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        from capmeter.encoders.hub_model import complete_model

        self.files, self.running = files, running
        folder = str(files.folder)
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            self.sees = hasattr(config, "vision_config")
            if self.sees:
                from transformers import AutoModelForImageTextToText, AutoProcessor

                self._reader: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
                self._tokenizer: Any = self._reader.tokenizer
                kind: Any = AutoModelForImageTextToText
            else:
                self._reader = self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                kind = AutoModelForCausalLM
            self._model: Any = complete_model(kind, files.folder, running.device, running.dtype)
        except _UNREADABLE as error:
            raise AssetError(f"judge {files.name!r}: cannot load {files.folder}: {error}") from error
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""
        return f"local {self.files.sha256[:12]} {self.running.name}"

    def ask(self, question: Question) -> Answer | Failure:
        """The model's most probable continuation.

        Raises:
            InputError: the question has a picture, and the model does not read pictures.
        """
        if question.picture is not None and not self.sees:
            raise InputError(f"judge {self.files.name!r} does not read pictures; choose a vision-language model")
        with self._lock:
            return self._answer(question)

    def _answer(self, question: Question) -> Answer:
        import torch

        inputs = self._inputs(question)
        start = int(inputs["input_ids"].shape[1])
        with torch.inference_mode():
            made = self._model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=question.longest,
                output_logits=True,
                return_dict_in_generate=True,
                pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id,
            )
        ids = made.sequences[0, start:].tolist()
        special = set(self._tokenizer.all_special_ids)
        tokens, text = [], ""
        for k, id in enumerate(ids):
            if id in special:
                continue
            grown = self._tokenizer.decode(ids[: k + 1], skip_special_tokens=True)
            piece, text = grown[len(text) :], grown
            chances = torch.log_softmax(made.logits[k][0].to(torch.float64), dim=-1)
            best = torch.topk(chances, min(_ALTERNATIVES, len(chances)))
            others = {self._tokenizer.decode([int(i)]): float(p) for p, i in zip(*best, strict=True)}
            tokens.append(Token(piece, others if question.alternatives else {}))
        ended = bool(ids) and ids[-1] == self._tokenizer.eos_token_id
        return Answer(text, tuple(tokens), finish="stop" if ended else "length", used=(start, len(ids)))

    def _inputs(self, question: Question) -> Any:
        if not self.sees:
            content: Any = question.text
        else:
            parts: list[dict[str, Any]] = [{"type": "text", "text": question.text}]
            if question.picture is not None:
                parts.insert(0 if question.picture_first else 1, {"type": "image"})
            content = parts
        if self._tokenizer.chat_template or getattr(self._reader, "chat_template", None):
            messages = [{"role": question.role, "content": content}]
            prompt = self._reader.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        else:
            prompt = question.text
        how: dict[str, Any] = {"return_tensors": "pt"}
        if question.picture is not None:
            from PIL import Image

            how["images"] = Image.fromarray(read_picture(question.picture).pixels)
        found = self._reader(text=prompt, **how)
        return {name: each.to(self.running.device) for name, each in found.items()}


def load_judge(name: str, settings: Settings) -> LocalJudge:
    """The model in this folder or of this hub id in the local cache, loaded once."""
    require_neural()
    return _load(find_encoder(name, {}), Precision.of(settings))


@functools.lru_cache(maxsize=1)
def _load(files: EncoderFiles, running: Precision) -> LocalJudge:
    return LocalJudge(files, running)
