"""Which state a run goes on from, agreed by all ranks, and whether it is the same run."""

from pathlib import Path
from typing import Any, TypedDict

from translate_ddp.data.batches import ORDER
from translate_ddp.data.dataset import PreparedData
from translate_ddp.errors import UserError
from translate_ddp.runtime.distributed import World
from translate_ddp.training.checkpoint import CheckpointStore, State, load

# A change of these makes another model, which no checkpoint of the old one fits.
SHAPE = ("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff")
# A change of these makes another plan of the epoch under way; between epochs they are free.
PLAN = ("seed", "batch_tokens", "batch_size")

RUN = {"run_id", "about", "identity", "history"}  # what a state knows of its run


class Finding(TypedDict):
    """What one node has to offer."""

    path: str
    step: int
    problem: str
    passed_over: list[str]


def find_state(
    store: CheckpointStore, preload: str, world: World
) -> tuple[State | None, list[str]]:
    """The state that `preload` means, and lines to tell of it; the same on every rank.

    Each node looks on its own disk. The newest intact file of all is read once, by the node that
    has it, and sent to every rank: disks need not be shared. None starts anew.
    Raises UserError if no node has what was asked for.
    """
    if not preload:
        return None, []

    def look() -> Finding:
        try:
            found, passed_over = store.find(preload)
        except UserError as error:
            return Finding(path="", step=-1, problem=str(error), passed_over=[])
        if found is None:
            return Finding(path="", step=-1, problem="", passed_over=[])
        return Finding(path=str(found.path), step=found.step, problem="", passed_over=passed_over)

    findings = world.on_each_node("looking for a checkpoint", look)
    node = max(range(len(findings)), key=lambda n: (findings[n]["step"], -n))
    finding = findings[node]
    if not finding["path"]:
        if problems := [finding["problem"] for finding in findings if finding["problem"]]:
            raise UserError(problems[0])
        return None, []
    owner = world.node_leaders[node]
    data = Path(finding["path"]).read_bytes() if world.rank == owner else None
    state = load(world.broadcast(data, owner), finding["path"])
    if missing := RUN - state["run"].keys():
        raise UserError(f"{finding['path']} says nothing of its {', '.join(sorted(missing))}.")
    state["run"]["history"].append(Path(finding["path"]).name)  # the one it could not know
    where = f", on node {node}" if len(findings) > 1 else ""
    # Once each: nodes that share a disk have seen the same.
    passed_over = dict.fromkeys(line for found in findings for line in found["passed_over"])
    return state, [*passed_over, f"Resuming from {finding['path']}{where}."]


def run_identity(about: dict[str, Any], data: PreparedData, world_size: int) -> dict[str, Any]:
    """What makes a run this run: it is stored in its checkpoints and compared at a resume."""
    plan = {name: about["train" if name == "seed" else "batches"][name] for name in PLAN}
    if plan["batch_size"]:
        plan["world_size"] = world_size  # batch_size counts per rank
    return {
        "always": {name: about["model"][name] for name in SHAPE}
        | {
            "languages": f"{about['corpus']['lang_src']}-{about['corpus']['lang_tgt']}",
            "tokenizer": data.tokenizer.fingerprint[:12],
            "training data": data.fingerprint[:12],
        },
        "within an epoch": plan | {"data order": ORDER},
    }


def check_same_run(state: State, identity: dict[str, Any]) -> None:
    """Raise UserError if going on from `state` would not be the same run."""
    saved = state["run"]["identity"]
    differences = compare(saved["always"], identity["always"])
    advice = "pass another --model_folder, or --preload '' to start anew"
    if state["position"]["step"]:
        plan = {"data order": 1} | saved["within an epoch"]  # as checkpoints without one had it
        differences += compare(plan, identity["within an epoch"])
        advice += " (seed and batch size may change between epochs: --preload EPOCH)"
    if differences:
        table = "".join(f"\n  {line}" for line in differences)
        raise UserError(
            f"The checkpoint belongs to another run than the one asked for:{table}\n"
            f"Restore these settings, {advice}."
        )


def compare(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each name that both have with another value."""
    names = sorted(before.keys() & now.keys())
    return [
        f"{name}: {before[name]} in the checkpoint, {now[name]} now"
        for name in names
        if before[name] != now[name]
    ]


def describe_changes(state: State, about: dict[str, Any], environment: dict[str, Any]) -> list[str]:
    """Lines on what may change in a run, and did."""
    lines = []
    for part, settings in about.items():
        if isinstance(settings, dict) and part not in ("checkpoint", "run"):
            lines += compare(state["run"]["about"].get(part, {}), settings)
    lines = [f"Changed: {line}." for line in lines]
    if differences := compare(state["environment"], environment):
        lines.append(
            "The same data in the same order, but no longer bit for bit: "
            + "; ".join(differences)
            + "."
        )
    return lines
