"""Validates during training: with a progress bar and heartbeats, until a request to stop."""

from dataclasses import dataclass

from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import Stopped
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.settings import ValidateOn
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.validation import Validation, ValidationSet, validate


@dataclass
class Validator:
    """Scores models on the validation set of a run. Every rank calls it at the same steps."""

    data: ValidationSet
    tokenizer: Tokenizer
    on: ValidateOn
    max_tokens: int
    logbook: Logbook
    world: World

    def validate(self, model: Transformer, step: int) -> Validation:
        """The scores and samples at this step. Raises Stopped at a request to stop."""
        data, world, watchdog = self.data, self.world, self.world.watchdog
        watchdog.enter_phase("validating", step)
        total = len(data.rows_of(world, self.on))

        def on_done(count: int) -> None:
            progress.advance(count)
            watchdog.heartbeat()
            fault_point("validating")
            if watchdog.stop_reason is not None:
                raise Stopped  # the resumed run validates again

        with self.logbook.progress("validation", total=total) as progress:
            was_training = model.training
            engine = TorchEngine(model.eval(), world.device, self.max_tokens)
            result = validate(engine, data, self.tokenizer, world, self.on, on_done=on_done)
            model.train(was_training)
            return result
