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


def complete_model(kind: Any, folder: Path, device: str, dtype: torch.dtype, unused: str = "", **how: Any) -> Any:
    """A model of the transformers library, ready to run.

    kind: its class, such as `AutoModel`. unused: weights with this in their name may be missing.

    Raises:
        ValueError: weights are missing, which the library would initialise at random.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    model, told = kind.from_pretrained(str(folder), local_files_only=True, dtype=dtype, output_loading_info=True, **how)
    lacking = sorted(name for name in told["missing_keys"] if not (unused and unused in name))
    if lacking:
        raise ValueError(f"its weights lack {lacking[0]} and {len(lacking) - 1} more; the files are incomplete")
    return model.eval().to(device)


class HubModel:
    """A model of the transformers library, with the same attributes and `run` as `Bert`."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        from transformers import AutoModel

        # the pooler is not used here and may be missing
        model = complete_model(AutoModel, folder, device, dtype, unused="pooler", attn_implementation="eager")
        if model.config.is_encoder_decoder:
            raise ValueError("it is an encoder-decoder model; capmeter's metrics need an encoder of the BERT kind")
        self._model: Any = model
        self._lock = threading.Lock()
        config = self._model.config
        self.layers = int(config.num_hidden_layers)
        self.heads = int(config.num_attention_heads)
        self.width = int(config.hidden_size)
        self.vocabulary = int(self._model.get_input_embeddings().num_embeddings)
        self.positions = int(config.max_position_embeddings)
        if config.model_type in _FROM_PADDING:
            self.positions -= int(config.pad_token_id) + 1

    @property
    def embeddings(self) -> Tensor:
        """The vector of each word piece before the first layer: [vocabulary, its width]."""
        words: Tensor = self._model.get_input_embeddings().weight.detach()
        return words

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
