"""`translate-ddp inspect --dataset ...`: describe a corpus before training."""

import os
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from translate_ddp.apps.commands.command_line import (
    check_page,
    given_flags,
    write_page,
)
from translate_ddp.console import counted, print_line
from translate_ddp.errors import UserError
from translate_ddp.presets import choose_preset, fit_vocabulary, with_preset
from translate_ddp.runtime.files import check_new, explain_write_errors
from translate_ddp.runtime.launch import read_launch
from translate_ddp.settings import (
    BatchConfig,
    Checked,
    Config,
    CorpusConfig,
    MixConfig,
    Preset,
    TokenizerConfig,
    at_least,
    setting,
)


@dataclass(frozen=True)
class InspectConfig(Checked):
    """Describe a corpus before training: rows, defects, vocabulary, preset, training time.

    Without --vocab_size and --batch_tokens, the preset's values are used.
    """

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    mix: MixConfig = field(default_factory=MixConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    batches: BatchConfig = field(default_factory=BatchConfig)
    preset: Preset = "auto"
    """Defaults of model size and schedule; auto: by the number of training pairs."""
    html: str = ""
    """HTML page to write, too, with more examples; '': none."""
    rows: str = ""
    """TSV file to write, too: each row that is dropped or looks wrong, and why; '': none."""
    seconds: float = setting(20.0, check=at_least(0))
    """Seconds of training steps, from which the training time is estimated; 0: no estimate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mix.check(self.corpus.dataset)


def run(config: InspectConfig) -> None:
    # Here: --help does not need torch.
    from translate_ddp.apps.inspecting.inspection import inspect, write_row_list
    from translate_ddp.apps.inspecting.inspection_report import render_inspection, report_lines
    from translate_ddp.data.tokenizer import existing_size

    if read_launch(os.environ).size > 1:
        raise UserError("inspect uses one process: start it without torchrun or srun.")
    page = Path(config.html) if config.html else None
    if page is not None:
        check_page(page, "--html")
    listed = Path(config.rows) if config.rows else None
    if listed is not None:
        check_new(listed, "--rows")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # deletes the temporary folder
    given = given_flags(sys.argv[2:])
    existing_size(config.tokenizer, config.corpus.languages_name, "vocab_size" in given)
    choose = partial(choose_settings, config, given)
    with tempfile.TemporaryDirectory(prefix="translate_ddp-inspect-") as folder:
        with explain_write_errors(f"The temporary folder {folder}", "Set TMPDIR to another disk."):
            found = inspect(config.corpus, choose, Path(folder), config.seconds)
        for line in report_lines(found):
            print_line(line)
        if page is not None:
            write_page(page, render_inspection(found), "--html")
            print_line(f"\nWrote {page}.")
        if listed is not None:
            with explain_write_errors(f"--rows {listed}"):
                count = write_row_list(found.cleaned, listed)
            print_line(f"\nWrote {counted(count, 'row')} to correct to {listed}.")


def choose_settings(config: InspectConfig, given: set[str], pairs: int) -> tuple[Config, str]:
    """The settings of a training with so many pairs, and the suggested preset."""
    suggested = choose_preset("auto", config.corpus.dataset, pairs)
    preset = choose_preset(config.preset, config.corpus.dataset, pairs)
    settings = Config(
        corpus=config.corpus, mix=config.mix, tokenizer=config.tokenizer, batches=config.batches
    )
    settings = with_preset(settings, preset, given)
    return settings if "vocab_size" in given else fit_vocabulary(settings), suggested
