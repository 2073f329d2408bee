"""Models of the transformers library: loaded completely or refused; any text encoder that `Bert` does not support."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capmeter.core.errors import AssetError
from capmeter.encoders.devices import Precision
from capmeter.encoders.handle import EncoderHandle

if TYPE_CHECKING:
    from torch import Tensor

# In the RoBERTa family, positions start after the padding id.
_POSITIONS_AFTER_PADDING = {
    *("roberta", "xlm-roberta", "camembert", "mpnet", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl"),
}
_LOAD_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)


def load_complete_model(
    model_class: Any, folder: Path, precision: Precision, optional: str = "", **options: Any
) -> Any:
    """Load a model of the transformers library, ready to run.

    Args:
        model_class: such as `AutoModel`.
        folder: its files.
        precision: the device and the type of numbers.
        optional: weights with this in their name may be missing.
        options: other arguments of `from_pretrained`.

    Raises:
        ValueError: weights are missing, which the library would initialise at random.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()
    model, loading_info = model_class.from_pretrained(
        str(folder), local_files_only=True, dtype=precision.dtype, output_loading_info=True, **options
    )
    missing_keys = sorted(
        weight_name for weight_name in loading_info["missing_keys"] if not (optional and optional in weight_name)
    )
    if missing_keys:
        raise ValueError(
            f"its weights lack {missing_keys[0]} and {len(missing_keys) - 1} more; the files are incomplete"
        )
    return model.eval().to(precision.device)


@contextmanager
def load_errors(handle: EncoderHandle, purpose: str = "") -> Iterator[None]:
    """Turn everything that loading an encoder raises into an `AssetError`. purpose: " as …", for the message."""
    from safetensors import SafetensorError

    try:
        yield
    except pickle.UnpicklingError as error:  # torch's own message advises running whatever the file contains
        raise AssetError(
            f"encoder {handle.name!r}: cannot load {handle.folder}: its weights are a damaged pickle, or one that "
            "contains more than numbers, which is never loaded; download or convert them as safetensors"
        ) from error
    except (*_LOAD_ERRORS, SafetensorError) as error:
        raise AssetError(f"encoder {handle.name!r}: cannot load {handle.folder}{purpose}: {error}") from error


class HubModel:
    """A text encoder of the transformers library, with the same attributes and `run` as `Bert`."""

    def __init__(self, folder: Path, precision: Precision) -> None:
        from transformers import AutoModel

        # the pooler is not used here and may be missing
        model = load_complete_model(AutoModel, folder, precision, optional="pooler", attn_implementation="eager")
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
        if config.model_type in _POSITIONS_AFTER_PADDING:
            self.positions -= int(config.pad_token_id) + 1

    @property
    def embeddings(self) -> Tensor:
        """Embeddings of word pieces before the first layer, (vocabulary, embedding_dim)."""
        weight: Tensor = self._model.get_input_embeddings().weight.detach()
        return weight

    def run(
        self, ids: Tensor, mask: Tensor | None, hidden: int | None, attentions: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """Hidden states of layer `hidden` (0: the embeddings), (batch, tokens, width), and the attention of all layers,
        (batch, layers, heads, tokens, tokens); each only if requested.
        """
        import torch

        mask_arguments = {} if mask is None else {"attention_mask": mask.long()}
        with self._lock:
            model_output = self._model(
                input_ids=ids, output_hidden_states=hidden is not None, output_attentions=attentions, **mask_arguments
            )
        return (
            None if hidden is None else model_output.hidden_states[hidden],
            torch.stack(model_output.attentions, dim=1) if attentions else None,
        )
