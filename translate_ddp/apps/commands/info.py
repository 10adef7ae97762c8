"""`translate-ddp info FILE`: what a checkpoint or an exported model is.

`--verify` reads all checkpoints of the folder.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from translate_ddp.apps.commands.model_commands import in_words
from translate_ddp.console import number, print_line, printable
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.errors import UserError
from translate_ddp.modeling.ctranslate2_engine import check_digest, is_exported, read_description
from translate_ddp.presets import changed_settings
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig
from translate_ddp.training.checkpoint import CheckpointStore, load, verify_file
from translate_ddp.training.checkpoint_name import Checkpoint
from translate_ddp.training.metrics import bleu_signature, with_units
from translate_ddp.training.run_info import describe_sizes
from translate_ddp.training.state import CHECKPOINT_FORMAT, RunState

Rows = list[tuple[str, str]]
DAMAGED = "damaged"


@dataclass(frozen=True)
class InfoConfig:
    """Describe a checkpoint file, the newest one in a folder, or an exported CTranslate2 folder."""

    file: Annotated[str, tyro.conf.Positional] = CheckpointConfig.model_folder
    """Checkpoint file, folder of a run, or exported folder."""
    model_basename: str = CheckpointConfig.model_basename
    """Prefix of the checkpoint names."""
    verify: bool = False
    """Verify every checkpoint in the folder; exit code 1 if one is damaged."""

    def __post_init__(self) -> None:
        CheckpointConfig(model_basename=self.model_basename)  # checks it


def run(config: InfoConfig) -> None:
    path = Path(config.file)
    rows = describe_export(path) if is_exported(path) else describe_file(path, config)
    for name, value in rows:
        print_line(f"{name:>14}  {printable(value)}")
    if DAMAGED in dict(rows):
        sys.exit(1)


def describe_file(path: Path, config: InfoConfig) -> Rows:
    """What the checkpoint is. Raises UserError if there is none, or if it is damaged."""
    if not path.exists():
        raise UserError(f"There is no file or folder {path}.")
    folder, preload = (path, "latest") if path.is_dir() else (path.parent, str(path.absolute()))
    store = CheckpointStore(CheckpointConfig(str(folder), config.model_basename))
    found = store.find(preload, World())
    for line in found.messages:
        print_line(printable(line))
    verified = map(verify_one, reversed(store.list())) if config.verify else ()
    return [("file", str(found.path)), *describe_state(load(found.path)), *verified]


def verify_one(checkpoint: Checkpoint) -> tuple[str, str]:
    """The row of a checkpoint. The file is parsed only if its digest matches."""
    try:
        verify_file(checkpoint.path)
        load(checkpoint.path, mapped=True)
    except UserError as error:
        return DAMAGED, f"{checkpoint.path.name}: {error}"
    return "intact", checkpoint.path.name


def describe_state(state: RunState) -> Rows:
    """The table of a checkpoint: data, model, training, best epoch and scores."""
    config, position = state.run.config, state.position
    changed = [f"{name} {value}" for name, value in changed_settings(config).items()]
    best = "none: no epoch has ended with a validation"
    if position.best_epoch:
        best = f"{position.best_epoch}, {position.best_metric} {number(position.best_score)}"
        if (count := len(state.facts.directions)) > 1 and "/" not in position.best_metric:
            best += f", the mean of {count} directions"
    if position.best_metric == "BLEU":
        best += f" (signature: {bleu_signature(state.facts.directions[0].tgt)})"
    parameters = sum(tensor.numel() for tensor in state.model.values())
    fingerprint, _ = state.run.identity.data_fingerprints
    versions = f"translate_ddp {state.version}, torch {state.environment['torch']}"
    resumes = "yes" if state.can_resume else "no: it is an average or an exported file"
    return [
        ("languages", in_words(state.facts.directions)),
        *([("extra tokens", " ".join(names))] if (names := state.facts.extra.names) else []),
        *_sizes(config["model"], parameters, state.facts),
        ("preset", config["run"]["preset"]),
        ("changed", ", ".join(changed) or "no setting"),
        ("trained", f"to {position}"),
        ("best epoch", best),
        ("data", f"{', '.join(config['corpus']['dataset'])}, fingerprint {fingerprint}"),
        ("versions", f"{versions}, checkpoint format {CHECKPOINT_FORMAT}"),
        ("resumes", resumes),
    ]


def describe_export(folder: Path) -> Rows:
    """What the exported model is. Raises UserError if it is damaged."""
    found = read_description(folder)
    check_digest(folder, found)
    scores = "not measured"
    if found.scores:
        scores = f"{with_units(found.scores)} (greedy; signature of BLEU: {found.bleu_signature})"
    return [
        ("folder", f"{folder}, CTranslate2, {found.quantization}"),
        ("languages", in_words(found.facts.directions)),
        *_sizes(found.model, found.parameters, found.facts),
        ("trained", f"to epoch {found.epoch}, step {found.step:,}"),
        ("scores", scores),
        *(("verified", line) for line in found.verified),
        *(("note", line) for line in found.notes),
        ("data", f"fingerprint {found.data}"),
        ("versions", f"translate_ddp {found.version}"),
        ("resumes", "no: it is an exported model"),
    ]


def _sizes(model: Mapping[str, Any], parameters: int, facts: ModelFacts) -> Rows:
    kind = "SentencePiece" if facts.tokenizer.is_sentencepiece else "tokenizer.json"
    return [
        ("model", f"{describe_sizes(model)}; {parameters:,} parameters"),
        ("vocabulary", f"{len(facts.tokenizer):,} tokens, {kind}"),
    ]
