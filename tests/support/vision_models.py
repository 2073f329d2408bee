"""Small random models of the real architectures, with their tokenizers and processors, and pictures to try them on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capmeter.captions.caption_set import Caption, CaptionSet

LETTERS = [chr(code) for code in range(33, 127)]
VISION = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
START, END = "<|startoftext|>", "<|endoftext|>"


def tiny_clip(folder: Path, *, seed: int = 0, length: int = 40, size: int = 32, width: int = 12) -> str:
    """A CLIP with OpenAI's kind of tokenizer and image processor."""
    import torch
    import transformers

    merges = [("d", "o"), ("do", "g</w>"), ("c", "a"), ("ca", "t</w>")]
    words = [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), *(a + b for a, b in merges), START, END]
    vocabulary = {word: k for k, word in enumerate(words)}
    transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=length).save_pretrained(folder)
    _processor("CLIP", size={"shortest_edge": size}, crop_size={"height": size, "width": size}).save_pretrained(folder)
    text = {"vocab_size": len(words), "max_position_embeddings": length, "bos_token_id": vocabulary[START], **VISION}
    text |= {"eos_token_id": vocabulary[END], "pad_token_id": vocabulary[END]}
    config = transformers.CLIPConfig(
        text_config=text, vision_config={"image_size": size, "patch_size": 8, **VISION}, projection_dim=width
    )
    torch.manual_seed(seed)
    _spread(transformers.CLIPModel(config)).save_pretrained(folder)
    return str(folder)


def tiny_siglip(folder: Path, *, length: int = 24) -> str:
    """A SigLIP; its tokenizer, in the library's own form, ends a sentence and begins none."""
    import torch
    import transformers

    words = ["<unk>", "</s>", "▁", *LETTERS]
    _unigram(words).save_pretrained(folder)
    _processor("Siglip", size={"height": 32, "width": 32}).save_pretrained(folder)
    text = {"vocab_size": len(words), "max_position_embeddings": length, "pad_token_id": 1, **VISION}
    config = transformers.SiglipConfig(
        text_config=text | {"projection_size": 16}, vision_config={"image_size": 32, "patch_size": 8, **VISION}
    )
    torch.manual_seed(0)
    model = _spread(transformers.SiglipModel(config))
    model.logit_scale.data.fill_(2.0)
    model.logit_bias.data.fill_(-1.5)
    model.save_pretrained(folder)
    return str(folder)


def tiny_blip(folder: Path) -> str:
    """A BLIP for image-text retrieval, with a tokenizer of BERT's kind."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = sorted({letter.lower() for letter in LETTERS})
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    output = Tokenizer(models.WordPiece({word: k for k, word in enumerate(words)}, unk_token="[UNK]"))
    output.normalizer = normalizers.BertNormalizer()
    output.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    output.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=output, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    _processor("Blip", size={"height": 32, "width": 32}).save_pretrained(folder)
    text = {"vocab_size": len(words), "max_position_embeddings": 64, "encoder_hidden_size": 16, **VISION}
    text |= {"pad_token_id": 0, "bos_token_id": 2, "sep_token_id": 3, "projection_dim": 16}
    config = transformers.BlipConfig(
        text_config=text, vision_config={"image_size": 32, "patch_size": 8, **VISION}, image_text_hidden_size=12
    )
    torch.manual_seed(0)
    _spread(transformers.BlipForImageTextRetrieval(config)).save_pretrained(folder)
    return str(folder)


def pictures(folder: Path, sizes: Sequence[tuple[int, int]], seed: int = 0) -> list[str]:
    """Pictures of noise and a few shapes, of these widths and heights."""
    from PIL import Image

    random = np.random.default_rng(seed)
    names = []
    for k, (width, height) in enumerate(sizes):
        coarse = random.integers(0, 255, (4, 4, 3), np.uint8)
        picture = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        picture.save(folder / f"{k}.png")
        names.append(str(folder / f"{k}.png"))
    return names


def captioned(names: Sequence[str], texts: Sequence[str], references: Sequence[tuple[str, ...]] = ()) -> CaptionSet:
    """One caption of each picture."""
    expected_names = references or [()] * len(names)
    rows = (
        Caption(str(k), f"image {k}", text, tuple(refs), name)
        for k, (name, text, refs) in enumerate(zip(names, texts, expected_names, strict=True))
    )
    return CaptionSet.from_captions(rows)


def _processor(family: str, **how: Any) -> Any:
    import transformers

    kind = getattr(transformers, f"{family}ImageProcessorPil", None) or getattr(transformers, f"{family}ImageProcessor")
    return kind(**how)


def _unigram(words: list[str]) -> Any:
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    output = Tokenizer(models.Unigram([(word, -float(k + 1)) for k, word in enumerate(words)], unk_id=0))
    output.pre_tokenizer = pre_tokenizers.Metaspace()
    output.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=output, eos_token="</s>", pad_token="</s>", unk_token="<unk>", model_max_length=24
    )


def _spread(model: Any) -> Any:
    """The model with larger random weights: at the library's start, all sentences and pictures are nearly the same."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "logit" not in name:
                weight.mul_(0).add_(torch.randn_like(weight) * 0.3)
    return model
