"""Any text encoder that the transformers library supports but `Bert` does not read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# In the RoBERTa family, positions start after the padding id.
_FROM_PADDING = {
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "data2vec-text",
    "roberta-prelayernorm",
    "xlm-roberta-xl",
}


class HubModel:
    """A model of the transformers library, with the same attributes and `run` as `Bert`."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        model, told = AutoModel.from_pretrained(
            str(folder), local_files_only=True, dtype=dtype, attn_implementation="eager", output_loading_info=True
        )
        # the library initialises missing weights at random; only the pooler, which is not used here, may be missing
        lacking = sorted(name for name in told["missing_keys"] if "pooler" not in name)
        if lacking:
            raise ValueError(f"its weights lack {lacking[0]} and {len(lacking) - 1} more; the files are incomplete")
        if model.config.is_encoder_decoder:
            raise ValueError("it is an encoder-decoder model; capmeter's metrics need an encoder of the BERT kind")
        self._model: Any = model.eval().to(device)
        self._lock = threading.Lock()
        config = self._model.config
        self.layers = int(config.num_hidden_layers)
        self.heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size)
        self.vocabulary = int(self._model.get_input_embeddings().num_embeddings)
        self.positions = int(config.max_position_embeddings)
        if config.model_type in _FROM_PADDING:
            self.positions -= int(config.pad_token_id) + 1

    def run(
        self, ids: Tensor, mask: Tensor | None, hidden: int | None, attentions: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """Hidden states [b, t, width] of layer `hidden` (0: the embeddings), and all maps [b, layers, heads, t, t]."""
        import torch

        wanted = {} if mask is None else {"attention_mask": mask.long()}
        with self._lock:
            output = self._model(
                input_ids=ids, output_hidden_states=hidden is not None, output_attentions=attentions, **wanted
            )
        return (
            None if hidden is None else output.hidden_states[hidden],
            torch.stack(output.attentions, dim=1) if attentions else None,
        )
