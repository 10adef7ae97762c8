"""What the grader does with each exercise in the ranks, and how it judges what came.

`measure_...` runs on every rank and returns plain values; `judge_...` has the values of all ranks.
"""

import itertools
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from lab.loop import Run, watch_saves
from lab.ranks import RECORDER, Facts, Problem

Pair = tuple[Tensor, Tensor]  # inputs and targets


@dataclass(frozen=True)
class Check:
    """One point: what is required, what was expected and found if not, and which mistake it is."""

    claim: str
    expected: str
    found: str
    passed: bool
    mistake: str = ""


def first_failed(checks: Sequence[Check]) -> Check:
    """The first that failed, or the first."""
    return min(checks, key=lambda check: check.passed)


def vector(tensors: Sequence[Tensor]) -> list[float]:
    return torch.cat([each.detach().double().flatten() for each in tensors]).tolist()


def shown(values: list[float]) -> str:
    return " ".join(f"{value:.4f}" for value in values[:4]) + " ..."


def close(left: list[float], right: list[float]) -> bool:
    pair = torch.tensor(left), torch.tensor(right)
    return len(left) == len(right) and torch.allclose(*pair, rtol=1e-4, atol=1e-6, equal_nan=True)


def small_model(depth: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    hidden = [layer for _ in range(depth) for layer in (nn.Linear(8, 8), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(8, 5))


def tokens(rank: int, part: int, count: int) -> Pair:
    source = torch.Generator().manual_seed(10 * rank + part)
    inputs = torch.randn(count, 8, generator=source) + rank
    return inputs, torch.randint(5, (count,), generator=source)


def gradients(model: nn.Module) -> list[float]:
    """All gradients of the model; a missing one counts as zeros."""
    parameters = model.parameters()
    return vector([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters])


def gradient(parts: Sequence[Pair], divisor: float = 0.0, depth: int = 1) -> list[float]:
    """Of the sum of the losses of all tokens, divided by their number or by `divisor`."""
    model = small_model(depth)
    inputs, targets = (torch.cat(each) for each in zip(*parts, strict=True))
    loss = F.cross_entropy(model(inputs), targets, reduction="sum")
    (loss / (divisor or len(targets))).backward()
    return gradients(model)


def mean(vectors: list[list[float]]) -> list[float]:
    return torch.tensor(vectors, dtype=torch.float64).mean(0).tolist()


def judge_vector(claim: str, ranks: list[Facts]) -> Check:
    """Whether the first rank that differs has the right vector, and which mistake its vector is."""
    right = ranks[0]["right"]
    found = next((each for each in ranks if not close(each["found"], right)), ranks[0])
    mistakes = (name for name, other in found["mistakes"].items() if close(found["found"], other))
    passed = close(found["found"], right)
    return Check(claim, shown(right), shown(found["found"]), passed, next(mistakes, ""))


# Exercise 1

COUNTS, EPOCHS = (101, 102, 4, 1), range(4)
MISTAKES = {  # whether indices are lost, whether some are there twice
    (True, True): "Each rank shuffled for itself: all ranks need the same seed.",
    (False, True): "You repeated indices, as DistributedSampler does to make counts equal.",
    (True, False): "You dropped indices, as DistributedSampler(drop_last=True) does.",
}


def measure_shards(indices_of_rank: Callable[..., list[int]]) -> Facts:
    return lists_of_rank(indices_of_rank, dist.get_rank(), dist.get_world_size())


def lists_of_rank(function: Callable[..., Any], rank: int, size: int) -> Facts:
    torch.manual_seed(rank)  # as on several computers, unseeded numbers differ
    np.random.seed(rank)
    cases = itertools.product(COUNTS, EPOCHS)
    lists = {(count, epoch): function(count, rank, size, epoch) for count, epoch in cases}
    if any(found is None for found in lists.values()):
        raise Problem("returned None, not a list")
    return {"lists": {case: list(map(int, found)) for case, found in lists.items()}}


def judge_shards(ranks: list[Facts]) -> list[Check]:
    complete, fair = [], []
    claims = "each index is on one rank", "lengths differ by at most 1"
    for count, epoch in itertools.product(COUNTS, EPOCHS):
        parts = [each["lists"][count, epoch] for each in ranks]
        used, lengths = sorted(itertools.chain(*parts)), sorted(map(len, parts))
        lost, twice = len(set(range(count)) - set(used)), len(used) - len(set(used))
        where = f"with count={count}, epoch={epoch}"
        mistake = MISTAKES.get((lost > 0, twice > 0), "")
        found, passed = f"{lost} lost, {twice} twice {where}", used == [*range(count)]
        complete.append(Check(claims[0], "0 lost, 0 twice", found, passed, mistake))
        found, passed = f"{lengths} {where}", lengths[-1] - lengths[0] <= 1
        fair.append(Check(claims[1], "equal, or 1 more", found, passed))
    of_epochs = [ranks[0]["lists"][COUNTS[0], epoch] for epoch in EPOCHS]
    same = [pair for pair in itertools.combinations(of_epochs, 2) if set(pair[0]) == set(pair[1])]
    mistake = "You forgot the epoch: a tutorial calls sampler.set_epoch."
    if any(first != second for first, second in same):
        mistake = "Only the order changed: shuffle all indices, then divide."
    claim = "other indices of rank 0 in each epoch"
    exchanged = Check(claim, "others", "the same", not same, mistake)
    return [first_failed(complete), first_failed(fair), exchanged]


# Exercise 2


def model_of(rank: int) -> nn.Module:
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 5))
    model[0].register_buffer("not_saved", torch.randn(6), persistent=False)
    for _ in range(1 + rank):
        model(torch.randn(4, 8))
    return model


def measure_start(copy_from_rank_0: Callable[[nn.Module], None]) -> Facts:
    rank, facts = dist.get_rank(), {}
    models = [model_of(each) for each in range(dist.get_world_size())]
    model, held = models[rank], list(models[rank].parameters())
    for part in ("parameters", "buffers"):
        own = [vector(list(getattr(each, part)())) for each in models]
        mistakes = {"The values did not change.": own[rank], "You averaged the ranks.": mean(own)}
        facts[part] = {"right": own[0], "mistakes": mistakes}
    forgotten = "state_dict() lacks a buffer: registered with persistent=False."
    facts["buffers"]["mistakes"][forgotten] = own[rank][:6] + own[0][6:]
    copy_from_rank_0(model)
    for part in ("parameters", "buffers"):
        facts[part]["found"] = vector(list(getattr(model, part)()))
    return facts | {"same": [*map(id, held)] == [*map(id, model.parameters())]}


def judge_start(ranks: list[Facts]) -> list[Check]:
    parts = ("parameters", "buffers")
    checks = [judge_vector(f"{part} of rank 0", [each[part] for each in ranks]) for part in parts]
    same = all(each["same"] for each in ranks)
    claim, found = "the parameters are the same objects", "new ones, unknown to the optimizer"
    return [*checks, Check(claim, "the same", found, same)]


# Exercise 3

TOKENS = {2: (7, 4), 3: (7, 2, 0)}  # of each rank


def measure_average(gradient_of_step: Callable[..., None]) -> Facts:
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [tokens(each, 0, count) for each, count in enumerate(TOKENS[size])]
    model = small_model()
    gradient_of_step(model, *parts[rank])
    own = [gradient([part], len(part[1]) or float("nan")) for part in parts]
    return {
        "found": gradients(model),
        "right": gradient(parts),
        "mistakes": {
            "You averaged means: a token of a rank with few tokens counted more.": mean(own),
            "You did not divide by the number of tokens.": gradient(parts, 1),
            "You divided by the number of ranks, not of tokens.": gradient(parts, size),
            "This is the gradient of one rank: nothing was sent.": own[rank],
            "You counted a rank without tokens.": gradient(parts, sum(TOKENS[size]) + 1),
        },
    }


def judge_average(ranks: list[Facts]) -> list[Check]:
    same = all(any(each["found"]) and close(each["found"], ranks[0]["found"]) for each in ranks)
    right = judge_vector("the gradient of the mean over all tokens", ranks)
    return [right, Check("the gradients of the ranks", "equal", "different, or none", same)]


# Exercise 4

BUCKETS = {1 << 30: [261], 400: [45, 72, 72, 72]}  # numbers in each, by bucket_bytes


def measure_buckets(send_gradients: Callable[..., Callable[[], None]]) -> Facts:
    rank, size = dist.get_rank(), dist.get_world_size()
    cases = []
    for limit in BUCKETS:
        model = small_model(3)
        RECORDER.watched = list(model.parameters())[:: 1 if limit > 400 else -1]
        finish = send_gradients(RECORDER.watched, limit)
        for step in (0, 1):  # hooks stay: a second step shows what the first left behind
            begin, (inputs, targets) = len(RECORDER.sent), tokens(rank, step, 4)
            F.cross_entropy(model(inputs), targets).backward()
            finish()
            own = [gradient([tokens(each, step, 4)], depth=3) for each in range(size)]
            mistakes = {"You did not divide by the ranks.": [size * value for value in mean(own)]}
            mistakes |= {"This is the gradient of one rank: nothing was sent.": own[rank]}
            facts = {"found": gradients(model), "right": mean(own), "mistakes": mistakes}
            cases.append(facts | {"sent": RECORDER.sent[begin:]})
            model.zero_grad()
    return {"cases": cases}


def judge_buckets(ranks: list[Facts]) -> list[Check]:
    flat, _, first, second = ([each["cases"][case] for each in ranks] for case in range(4))
    checks = [judge_vector("the mean over ranks, in the first step", flat)]
    sizes = [each.numel() for each in small_model(3).parameters()]
    for (case, *_), (limit, right) in zip((flat, first), BUCKETS.items(), strict=True):
        found = sorted(each["numbers"] for each in case["sent"])
        mistake = "You sent each parameter for itself." if found == sorted(sizes) else ""
        if found == BUCKETS[1 << 30]:
            mistake = "You sent one flat tensor: now divide it by bucket_bytes."
        claim = f"numbers in each all-reduce, with bucket_bytes={limit:,}"
        checks.append(Check(claim, str(right), str(found), found == right, mistake))
    early = [each["async"] for each in first[0]["sent"] if each["ready"] < len(sizes)]
    claim = "buckets are sent before the last gradient is ready, and backward does not wait"
    mistake = "Backward waits: use async_op." if early else "You sent after backward."
    found = f"{len(early)} early, {early.count(False)} wait"
    checks.append(Check(claim, "some early, 0 wait", found, bool(early) and all(early), mistake))
    claim = "the mean over ranks, in buckets, in another order, in a second step"
    return [*checks, judge_vector(claim, second)]


# Exercise 5

MICRO_BATCHES = (2, 5, 3)  # tokens of each, and one more on each next rank


def measure_accumulate(accumulate: Callable[..., None]) -> Facts:
    rank, size = dist.get_rank(), dist.get_world_size()
    counts = list(enumerate(MICRO_BATCHES))
    parts = [[tokens(each, part, n + each) for part, n in counts] for each in range(size)]
    everything = list(itertools.chain(*parts))
    total = sum(len(targets) for _, targets in everything)
    model, order = small_model(), []
    model.register_forward_hook(lambda *_: order.append("forward"))
    next(model.parameters()).register_post_accumulate_grad_hook(lambda _: order.append("backward"))
    replica = DistributedDataParallel(model)
    replica.register_comm_hook(dist.group.WORLD, allreduce_hook)  # it is recorded
    accumulate(replica, parts[rank], total)
    means = mean([mean([gradient([each]) for each in own]) for own in parts])
    mistakes = {
        "You averaged means: a token in a small micro-batch counted more.": means,
        "DDP divides by the number of ranks: undo it.": gradient(everything, total * size),
        "You divided by the tokens of a rank.": mean([gradient(own) for own in parts]),
    }
    facts = {"found": gradients(model), "right": gradient(everything), "mistakes": mistakes}
    return facts | {"count": len(RECORDER.sent), "order": " ".join(order)}


def judge_accumulate(ranks: list[Facts]) -> list[Check]:
    sent = ranks[0]["count"]
    mistake = "You sent in each micro-batch: no_sync must contain its forward and its backward."
    mistake = mistake if sent else "You never sent: leave the last micro-batch out of no_sync."
    once = Check("all-reduces of a step", "1", str(sent), sent == 1, mistake)
    right, found = " ".join(["forward backward"] * len(MICRO_BATCHES)), ranks[0]["order"]
    mistake = "This needs the memory of several micro-batches: end each by its own backward."
    alone = Check("one micro-batch in memory", right, found, found == right, mistake)
    return [once, judge_vector("the gradient of the mean over all tokens", ranks), alone]


# Exercise 6

STEPS, KILLED_IN_STEP, KILLED_IN_SAVE = 7, 3, 2


def measure_resume(train: Callable[..., None], path: str, life: str) -> Facts:
    """One life of the training: the digests before each of its steps, and at the end."""
    states: dict[int, dict[str, str]] = {}

    def before_step(run: Run, number: int) -> None:
        if life == "killed in a step" and number == KILLED_IN_STEP:
            dist.barrier()  # rank 0 has saved the step before
            os.kill(os.getpid(), signal.SIGKILL)
        states[number] = run.digests()

    saves = watch_saves(KILLED_IN_SAVE if life == "killed in a save" else 0)
    try:
        is_half = Path(path).exists() and not torch.load(path)
    except Exception:  # of many kinds
        is_half = True
    run = Run(before_step)
    if not is_half:
        train(run, Path(path), STEPS)
    return {"half": is_half, "states": states, "end": run.digests(), "saves": len(saves)}


def judge_resume(lives: dict[str, list[Facts]]) -> list[Check]:
    """`lives` has the facts of the undisturbed training, and of both that continue."""
    whole, all_steps = lives["whole"], list(range(STEPS))
    made, right = list(whole[0]["states"]), whole[0]["end"]["weights"]
    masks = {each["states"][number]["generator"] for each in whole for number in each["states"]}
    writers = [rank for rank, each in enumerate(whole) if each["saves"]]
    required = f"steps {all_steps}, {STEPS * len(whole)} masks, one rank that saves"
    found = f"steps {made}, {len(masks)} masks, ranks that save: {writers}"
    mistake = "Several ranks overwrite each other's file." * (len(writers) > 1)
    if len(masks) < len(made) * len(whole):
        mistake = "Dropout has equal masks: seeds must differ between steps and between ranks."
    complete = made == all_steps
    checks = [Check("steps without a kill", required, found, complete and not mistake, mistake)]
    for life in ("after a kill in a step", "after a kill in a save"):
        mistakes = map(mistake_of_rank, range(len(whole)), lives[life], whole)
        mistake = next(filter(None, mistakes), "")
        if any(each["half"] for each in lives[life]):
            mistake = "The kill left half a file: save to a temporary file, then os.replace."
        ends = [each["end"]["weights"] for each in lives[life]]
        passed = ends == [right] * len(ends) and complete and not mistake
        if not all(check.passed for check in checks[1:]):
            mistake = "Follows from the kill in a step: correct that first."
        checks.append(Check(f"weights {life}", right, " ".join(ends), passed, mistake))
    return checks


def mistake_of_rank(rank: int, continued: Facts, undisturbed: Facts) -> str:
    """What was wrong when the training of this rank continued."""
    first, begin = next(iter(continued["states"].items()), (STEPS, continued["end"]))
    states = undisturbed["states"] | {STEPS: undisturbed["end"]}
    same = [number for number in states if states[number]["weights"] == begin["weights"]]
    lost = [part for part in begin if begin[part] != states[first][part]]
    if first == 0:
        return "It began at step 0: the checkpoint lacks the step, or was not read."
    if lost and same and same[0] > first:
        return f"It repeated step {first}: save the number of the next step."
    if lost and same and 0 < same[0] < first:
        return f"It skipped step {same[0]}."
    if lost:
        return f"At step {first} rank {rank} lacks: {', '.join(lost)}."
    return f"Step {first} was lost: save after each step." * (first < KILLED_IN_STEP)
