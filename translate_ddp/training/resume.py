"""Selects the checkpoint that a run starts from, for all ranks, and checks that it fits the run."""

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.plan import ORDER
from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.distributed import World
from translate_ddp.settings import Config
from translate_ddp.training.checkpoint import CheckpointStore, damage, load
from translate_ddp.training.state import Run, RunIdentity, RunState

# seq_len is part of the data's fingerprint; max_tokens only divides a step into passes.
FREE_SETTINGS = ("dropout", "seq_len", "max_tokens")

Settings = dict[str, dict[str, Any]]  # part -> setting -> value


@dataclass
class Start:
    """The checkpoint that a run starts from; the same on every rank."""

    state: RunState | None  # to resume; None for a new run
    path: Path  # its file
    messages: list[str]
    initial: RunState | None = None  # whose weights a new run takes (`--init_from`)


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


class Sent(NamedTuple):
    """The state that one node sent to every rank."""

    state: RunState
    path: Path
    source: str  # the path, and the node if there are several
    passed_over: list[str]


def find_start(settings: CheckpointConfig, world: World) -> Start:
    """The checkpoint that `preload` selects, else for a new run the file `init_from`.

    Raises UserError if there is no such checkpoint, or if it cannot be resumed.
    """
    store, init_from = CheckpointStore(settings), settings.init_from
    preload = "latest" if world.restarted else settings.preload
    state, path, messages = load_state(store, preload, world)
    if world.restarted and state is None:  # the restarted run had not saved yet
        state, path, messages = load_state(store, settings.preload, world)
    if state is None and init_from:
        initial, message = load_initial(Path(init_from), world)
        return Start(None, path, [message], initial)
    if state is not None and not state.can_resume:
        raise UserError(
            f"{path} is an average or an exported file, which has no optimizer state to resume "
            f"with: start a new run from it with --init_from {path} and another --model_folder."
        )
    if state is not None and init_from:
        messages.append(f"--init_from {init_from} is for new runs: it was not read.")
    return Start(state, path, messages)


def resume_run(
    start: Start, settings: CheckpointConfig, config: Settings, identity: RunIdentity, world: World
) -> Resumed:
    """The run of the checkpoint, or a new one; the same on every rank.

    Files in the folder that are not part of it are moved to an archive. A run that resumes before
    its last checkpoint, or in another folder, gets a new id: trackers drop points before the last
    step of an id. Raises UserError if the checkpoint belongs to another run.
    """
    store, state, path = CheckpointStore(settings), start.state, start.path
    messages = list(start.messages)
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

    The state is None for a new run. Raises UserError if no node has the requested checkpoint.
    """
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

    sent = send_newest("looking for a checkpoint", look, world)
    if sent is None:
        return None, store.folder, [f"No checkpoint in {store.folder}: starting from scratch."]
    return sent.state, sent.path, [*sent.passed_over, f"Resuming from {sent.source}."]


def load_initial(path: Path, world: World) -> tuple[RunState, str]:
    """The state in the file, without its optimizer, and a message; the same on every rank.

    Raises UserError if no node has the file.
    """

    def look() -> Finding:
        problem = damage(path) if path.exists() else "there is no such file"
        if problem:
            return Finding(problem=f"--init_from {path} cannot be used: {problem}.")
        return Finding(str(path), step=0)

    sent = send_newest("looking for the initial weights", look, world)
    assert sent is not None
    position = sent.state.position
    return replace(sent.state, optimizer={}), (
        f"New run with the weights, model settings and tokenizer of {sent.source} "
        f"(epoch {position.current_epoch}, step {position.global_step:,})."
    )


def send_newest(phase: str, look: Callable[[], Finding], world: World) -> Sent | None:
    """The newest file that `look` finds on a node, sent to every rank; None if there is none.

    Each node searches its own disk, so disks need not be shared. Raises UserError if no node has a
    file and one of them has a problem.
    """
    findings = world.on_each_node(phase, look)
    node = max(range(len(findings)), key=lambda n: (findings[n].step, -n))
    path = findings[node].path
    if not path:
        if problems := [finding.problem for finding in findings if finding.problem]:
            raise UserError(problems[0])
        return None
    owner = world.node_leaders[node]
    data = Path(path).read_bytes() if world.rank == owner else None
    state = load(world.broadcast(data, owner), path)
    source = f"{path}, on node {node}" if len(findings) > 1 else path
    # Without duplicates: nodes may share a disk.
    passed_over = dict.fromkeys(line for found in findings for line in found.passed_over)
    return Sent(state, Path(path), source, list(passed_over))


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
        if file := state.run.config.get("checkpoint", {}).get("init_from"):
            advice = f"pass --init_from {file}, {advice}"
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


def describe_environment(model: Transformer, max_tokens: int, world: World) -> dict[str, Any]:
    """What must be the same, beside the settings, for results that are equal bit for bit."""
    return {
        "world_size": world.size,
        "threads": torch.get_num_threads(),
        "max_tokens": max_tokens,
        "device": world.device.type,
        "precision": str(model.dtype).removeprefix("torch."),
        "torch": str(torch.__version__),  # a subclass of str, which a safe load rejects
    }
