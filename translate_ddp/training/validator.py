"""Validates during training: with a progress bar and heartbeats, until a request to stop."""

from dataclasses import dataclass, field

from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import Stopped
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.settings import ValidateOn
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.metrics import bleu_signature
from translate_ddp.training.validation import (
    Validation,
    ValidationSet,
    samples_of,
    validate,
)


@dataclass
class Validator:
    """Scores models on the validation set of a run. Every rank calls it at the same steps."""

    data: ValidationSet
    tokenizer: Tokenizer
    on: ValidateOn
    max_tokens: int
    logbook: Logbook
    world: World
    _signature_shown: bool = field(default=False, init=False)

    def validate(self, model: Transformer, step: int) -> dict[str, float]:
        """The scores at this step; the translations are logged. Raises Stopped like `score`."""
        result = self.score(model, step)
        rows = samples_of(self.data.sources, self.data.references, result.predictions)
        self.logbook.validated(step, rows)
        return result.scores

    def score(self, model: Transformer, step: int) -> Validation:
        """Scores and translations at this step. Raises Stopped at a request to stop."""
        data, world, watchdog = self.data, self.world, self.world.watchdog
        watchdog.enter_phase("validating", step)
        total = len(data.rows_of(world, self.on))

        def on_batch(_: int) -> None:
            watchdog.heartbeat()
            if watchdog.stop_reason is not None:
                raise Stopped  # the resumed run validates again

        def on_decoded(count: int) -> None:
            progress.advance(count)
            fault_point("validating")
            on_batch(count)

        with self.logbook.progress("validation", total=total) as progress:
            was_training = model.training
            engine = TorchEngine(model.eval(), world.device, self.max_tokens)
            result = validate(
                engine,
                data,
                self.tokenizer,
                world,
                self.on,
                on_decoded=on_decoded,
                on_loss=on_batch,
            )
            model.train(was_training)
            return result

    def show_signature(self) -> None:
        """Print BLEU's signature once, on rank 0."""
        if self.world.is_main and not self._signature_shown:
            self.logbook.message(f"BLEU signature: {bleu_signature(self.data.lang_tgt)}")
            self._signature_shown = True
