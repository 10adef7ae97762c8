"""The mean of the weights of models, without a run."""

import pytest
import torch

from translate_ddp.errors import UserError
from translate_ddp.training.open_checkpoint import average_weights


def test_mean_is_computed_in_double_precision():
    # Summed in fp32, the ones vanish: 1e8 + 1 is 1e8.
    models = [{"w": torch.tensor([value])} for value in (1e8, 1.0, 1.0, -1e8)]
    mean = average_weights(models)["w"]
    assert mean.dtype == torch.float32 and mean.item() == 0.5
    assert [float(model["w"]) for model in models] == [1e8, 1.0, 1.0, -1e8]  # unchanged


def test_weights_of_different_models_are_not_averaged():
    with pytest.raises(UserError, match="not of the same model"):
        average_weights([{"w": torch.zeros(2)}, {"w": torch.zeros(1)}])
