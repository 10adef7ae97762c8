"""Selects the checkpoint to resume from, for all ranks, and checks that it is of the same run."""

import hashlib
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.plan import ORDER
from translate_ddp.errors import UserError
from translate_ddp.runtime.distributed import World
from translate_ddp.settings import CheckpointConfig, Config
from translate_ddp.training.checkpoint import CheckpointStore, load
from translate_ddp.training.state import Run, RunIdentity, RunState

# seq_len is part of the data's fingerprint; max_tokens only divides a step into passes.
FREE_SETTINGS = ("dropout", "seq_len", "max_tokens")

Settings = dict[str, dict[str, Any]]  # part -> setting -> value


@dataclass
class Resumed:
    """A run and the state it resumes from, None for a new run."""

    run: Run
    state: RunState | None
    messages: list[str] = field(default_factory=list)
    is_fork: bool = False  # from an earlier checkpoint or in another folder: it has a new run id


class Finding(NamedTuple):
    """The checkpoint that one node found."""

    path: str = ""
    step: int = -1
    problem: str = ""
    passed_over: tuple[str, ...] = ()


def resume_run(
    settings: CheckpointConfig, config: Settings, identity: RunIdentity, world: World
) -> Resumed:
    """The run of the checkpoint that `preload` selects, or a new one; the same on every rank.

    Files in the folder that are not part of it are moved to an archive. A run that resumes before
    its last checkpoint, or in another folder, gets a new id: trackers drop points before the last
    step of an id. Raises UserError if the checkpoint is missing or belongs to another run.
    """
    store = CheckpointStore(settings)
    preload = settings.preload
    state, path, messages = load_state(store, "latest" if world.restarted else preload, world)
    if world.restarted and state is None:  # the restarted run had not saved yet
        state, path, messages = load_state(store, preload, world)
    if state is not None:
        check_same_run(state, identity)
        state.run.history.append(path.name)  # a file does not contain its own name
    history = state.run.history if state is not None else None
    moved = world.on_main_then_each_node("archiving files", lambda: store.archive(history))
    messages += [f"Moved files that are not part of this run to {to}." for to in moved if to]

    archives = world.on_main("counting archives", store.count_archives)
    if state is None:
        run_id = world.on_main("creating the run id", lambda: uuid.uuid4().hex[:8])
        return Resumed(Run(run_id, config, identity, archives=archives), None, messages)
    run_id, folder = state.run.run_id, store.folder.resolve()
    # An archive made after the state was saved contains later checkpoints.
    is_fork = archives > state.run.archives or path.parent.resolve() != folder
    if is_fork:  # not random: the same again if the run is killed before it saves
        run_id = hashlib.sha256(f"{run_id} {archives} {folder}".encode()).hexdigest()[:8]
    run = Run(run_id, config, identity, state.run.history, archives)
    return Resumed(run, state, messages, is_fork)


def load_state(
    store: CheckpointStore, preload: str, world: World
) -> tuple[RunState | None, Path, list[str]]:
    """The state that `preload` selects, its file, and messages; the same on every rank.

    Each node searches its own disk. The node with the newest intact file reads it and sends it to
    every rank, so disks need not be shared. The state is None for a new run. Raises UserError if no
    node has the requested checkpoint.
    """
    nothing = f"No checkpoint in {store.folder}: starting from scratch."
    if not preload:
        return None, store.folder, ["Starting from scratch (--preload '')."]

    def look() -> Finding:
        try:
            found, passed_over = store.find(preload)
        except UserError as error:
            return Finding(problem=str(error))
        if found is None:
            return Finding()
        return Finding(str(found.path), found.step, passed_over=tuple(passed_over))

    findings = world.on_each_node("looking for a checkpoint", look)
    node = max(range(len(findings)), key=lambda n: (findings[n].step, -n))
    path = findings[node].path
    if not path:
        if problems := [finding.problem for finding in findings if finding.problem]:
            raise UserError(problems[0])
        return None, store.folder, [nothing]
    owner = world.node_leaders[node]
    data = Path(path).read_bytes() if world.rank == owner else None
    state = load(world.broadcast(data, owner), path)
    where = f", on node {node}" if len(findings) > 1 else ""
    # Without duplicates: nodes may share a disk.
    passed_over = dict.fromkeys(line for found in findings for line in found.passed_over)
    return state, Path(path), [*passed_over, f"Resuming from {path}{where}."]


def run_identity(config: Settings, data: PreparedData, world_size: int) -> RunIdentity:
    """The settings and data that must be the same when a run resumes.

    They are all settings of the model and the batches except `FREE_SETTINGS`.
    """
    corpus = config["corpus"]
    model, plan = (
        {name: value for name, value in config[part].items() if name not in FREE_SETTINGS}
        for part in ("model", "batches")
    )
    if plan["batch_size"]:
        plan["world_size"] = world_size  # batch_size counts per rank
    return RunIdentity(
        always=model
        | {
            "languages": f"{corpus['lang_src']}-{corpus['lang_tgt']}",
            "tokenizer": data.tokenizer.fingerprint[:12],
            "training data": data.fingerprint[:12],
        },
        within_epoch=plan | {"seed": config["train"]["seed"], "data order": ORDER},
    )


def check_same_run(state: RunState, identity: RunIdentity) -> None:
    """Raise UserError if `state` belongs to a run with another identity."""
    saved = state.run.identity
    differences = compare(_with_defaults(saved.always, "model"), identity.always)
    advice = "pass another --model_folder, or --preload '' to start from scratch"
    if state.position.step_in_epoch:
        plan = _with_defaults(saved.within_epoch, "batches")
        if other_plan := compare(plan, identity.within_epoch):
            differences += other_plan
            advice += " (seed and batch size may change between epochs: --preload EPOCH)"
    if differences:
        table = "".join(f"\n  {line}" for line in differences)
        raise UserError(
            f"The checkpoint belongs to another run:{table}\nRestore these settings, {advice}."
        )


def _with_defaults(saved: dict[str, Any], part: str) -> dict[str, Any]:
    """The saved settings with the defaults of those that their version did not have.

    The default of a new setting must be what the code did before.
    """
    defaults = {n: v for n, v in Config().to_dict()[part].items() if n not in FREE_SETTINGS}
    return defaults | saved


def compare(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each name whose value differs; a missing value is "unset"."""
    names = sorted(before.keys() | now.keys())
    pairs = {name: (before.get(name, "unset"), now.get(name, "unset")) for name in names}
    return [
        f"{name}: {old} in the checkpoint, {new} now"
        for name, (old, new) in pairs.items()
        if old != new
    ]


def describe_changes(state: RunState, config: Settings, environment: dict[str, Any]) -> list[str]:
    """A message for each changed setting, and one if the environment changed."""
    defaults, saved = Config().to_dict(), state.run.config
    messages = [
        f"Changed: {line}."
        for part in config
        if part not in ("checkpoint", "run")
        for line in compare(defaults.get(part, {}) | saved.get(part, {}), config[part])
    ]
    if differences := compare(state.environment, environment):
        messages.append(
            "The order of the data is the same, but the results are not equal bit for bit: "
            + "; ".join(differences)
            + "."
        )
    return messages
