"""The model of a checkpoint."""

import torch

from translate_ddp.modeling.transformer import Transformer
from translate_ddp.settings import ModelConfig
from translate_ddp.training.state import RunState


def saved_model(
    state: RunState, vocabulary: int, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model of a checkpoint. Its parameters are the tensors in `state`.

    Nothing else is allocated, so a file that declares huge shapes needs no memory for them. Raises
    ValueError or RuntimeError if the tensors do not fit the configuration.
    """
    config = ModelConfig(**state.run.config["model"])
    if config.num_encoder_layers + config.num_decoder_layers > len(state.model):
        raise ValueError("there are fewer tensors than layers.")
    with torch.device("meta"):
        model = Transformer(config, vocabulary, dtype=dtype)
    model.load_state_dict(state.model, assign=True)
    return model
