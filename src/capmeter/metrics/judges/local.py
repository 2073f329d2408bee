"""A local judge: a model of the transformers library, decoded greedily, with the probabilities of every token.

For images, a vision-language model with a processor (LLaVA, Qwen-VL …); otherwise any causal language model. Weights
come from a folder or the local hub cache; nothing is downloaded. The prompt goes through the model's chat template, if
it has one.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from capmeter.core.errors import AssetError, InputError
from capmeter.core.settings import Settings
from capmeter.encoders.devices import Precision
from capmeter.encoders.handle import EncoderHandle, find_encoder, require_neural
from capmeter.images.reading import read_image
from capmeter.metrics.judges.answers import Answer, Failure, Question, Token
from capmeter.metrics.judges.engine import Ask

_ALTERNATIVES = 20
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)


class LocalJudge:
    """A model and its processor; questions are answered one at a time."""

    def __init__(self, handle: EncoderHandle, running: Precision) -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

        from capmeter.encoders.hub_model import load_complete_model

        self.handle, self.running = handle, running
        folder = str(handle.folder)
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            self.accepts_images = hasattr(config, "vision_config")
            if self.accepts_images:
                from transformers import AutoModelForImageTextToText, AutoProcessor

                self._reader: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
                self._tokenizer: Any = self._reader.tokenizer
                model_class: Any = AutoModelForImageTextToText
            else:
                self._reader = self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
                model_class = AutoModelForCausalLM
            self.model: Any = load_complete_model(model_class, handle.folder, running)
        except _UNREADABLE as error:
            raise AssetError(f"judge {handle.name!r}: cannot load {handle.folder}: {error}") from error
        self._lock = threading.Lock()

    @property
    def identity(self) -> str:
        """What answers depend on besides the question."""
        return f"local {self.handle.sha256[:12]} {self.running.name}"

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Ask]:
        """Yields what asks a question, in a thread."""

        async def ask(question: Question) -> Answer | Failure:
            return await asyncio.to_thread(self.answer, question)

        yield ask

    def answer(self, question: Question) -> Answer | Failure:
        """The model's most probable continuation, or with a temperature a sampled one.

        Raises:
            InputError: the question has an image, and the model does not accept images.
        """
        if question.image is not None and not self.accepts_images:
            raise InputError(f"judge {self.handle.name!r} does not accept images; choose a vision-language model")
        with self._lock:
            return self._generate(question)

    def _generate(self, question: Question) -> Answer:
        import torch

        model_inputs = self._inputs(question)
        decoding: dict[str, Any] = {"do_sample": False}
        if question.temperature:
            torch.manual_seed(question.repeat)
            decoding = {"do_sample": True, "temperature": question.temperature}
        prompt_length = int(model_inputs["input_ids"].shape[1])
        with torch.inference_mode():
            generated = self.model.generate(
                **model_inputs,
                **decoding,
                max_new_tokens=question.max_tokens,
                output_logits=True,
                return_dict_in_generate=True,
                pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id,
            )
        token_ids = generated.sequences[0, prompt_length:].tolist()
        special_ids = set(self._tokenizer.all_special_ids)
        tokens, text = [], ""
        for k, token_id in enumerate(token_ids):
            if token_id in special_ids:
                continue
            decoded_text = self._tokenizer.decode(token_ids[: k + 1], skip_special_tokens=True)
            token_text, text = decoded_text[len(text) :], decoded_text
            log_probabilities = torch.log_softmax(generated.logits[k][0].to(torch.float64), dim=-1)
            top_tokens = torch.topk(log_probabilities, min(_ALTERNATIVES, len(log_probabilities)))
            alternatives = {self._tokenizer.decode([int(i)]): float(p) for p, i in zip(*top_tokens, strict=True)}
            tokens.append(Token(token_text, alternatives if question.alternatives else {}))
        is_complete = bool(token_ids) and token_ids[-1] == self._tokenizer.eos_token_id
        return Answer(
            text, tuple(tokens), finish="stop" if is_complete else "length", used=(prompt_length, len(token_ids))
        )

    def _inputs(self, question: Question) -> Any:
        if not self.accepts_images:
            content: Any = question.text
        else:
            content_parts: list[dict[str, Any]] = [{"type": "text", "text": question.text}]
            if question.image is not None:
                content_parts.insert(0 if question.image_first else 1, {"type": "image"})
            content = content_parts
        if self._tokenizer.chat_template or getattr(self._reader, "chat_template", None):
            messages = [{"role": question.role, "content": content}]
            if question.system:
                system_content = [{"type": "text", "text": question.system}] if self.accepts_images else question.system
                messages.insert(0, {"role": "system", "content": system_content})
            prompt = self._reader.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        else:
            prompt = "\n\n".join(filter(None, (question.system, question.text)))
        reader_options: dict[str, Any] = {"return_tensors": "pt"}
        if question.image is not None:
            from PIL import Image

            reader_options["images"] = Image.fromarray(read_image(question.image).pixels)
        model_inputs = self._reader(text=prompt, **reader_options)
        return {name: tensor.to(self.running.device) for name, tensor in model_inputs.items()}


def load_judge(name: str, settings: Settings) -> LocalJudge:
    """The model in this folder or of this hub id in the local cache, loaded once."""
    require_neural()
    return _load(find_encoder(name, {}), Precision.of(settings))


@functools.lru_cache(maxsize=1)
def _load(handle: EncoderHandle, running: Precision) -> LocalJudge:
    return LocalJudge(handle, running)
