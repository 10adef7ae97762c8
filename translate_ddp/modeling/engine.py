"""Engines compute translations and their probabilities, from token ids to token ids.

`TorchEngine` decodes in batches that fit the memory, with the model's weights ready for inference.
"""

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from translate_ddp.data.batches import batch_by_tokens, pad, split_into_micro_batches
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.model_facts import MORE_TOKENS
from translate_ddp.data.tokenizer import EOS, SOS
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding_state import DecodingState
from translate_ddp.modeling.fused_losses import rows_at_once
from translate_ddp.modeling.kernels import Linear, PackedWeights, can_pack
from translate_ddp.modeling.loss import at_real_positions
from translate_ddp.modeling.search import (
    SCORES_ARE_NAN,
    Hypothesis,
    SearchState,
    beam,
    greedy,
    sample,
)
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.modeling.transformer import Attention, DecoderLayer, EncoderLayer, Transformer
from translate_ddp.runtime.device import FREE_MEMORY, OutOfMemory, explain_out_of_memory
from translate_ddp.settings import default_micro_batch_tokens

# Tokens decoded at once: source tokens with padding, times the rows of a sentence. On a GPU a
# step with few rows takes as long as one with many.
CPU_MAX_TOKENS, GPU_MAX_TOKENS = 8192, 65_536
# On a CPU, at least so many batches if they have so many tokens, since each core searches one. The
# number of cores does not count: in bf16, a batch of another size may give another translation.
CPU_BATCHES, CPU_MIN_TOKENS = 4, 512
LENGTH_RATIO = 2.0  # longest translation, divided by its source plus `MORE_TOKENS`
Ids = Sequence[Sequence[int] | np.ndarray]  # sentences, without start and end markers
OnDone = Callable[[int], None]  # receives the number of finished sentences


def ignore(count: int) -> None:
    """Receives the number of finished sentences and does nothing."""


class Engine(Protocol):
    """A trained model: translations and log-probabilities from token ids to token ids."""

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        ...

    def translate(
        self, sources: Ids, config: NBestConfig, on_done: OnDone = ignore, unrepeated: int = 0
    ) -> list[list[Hypothesis]]:
        """`config.n_best` translations of each source, best first; samples as they were drawn.

        Translations of an empty source are empty. `on_done` is called after each batch. In a beam
        search, no translation has so many tokens in a row twice as `unrepeated`; 0: any may.
        """
        ...

    def log_probs(self, sources: Ids, targets: Ids, on_done: OnDone = ignore) -> list[np.ndarray]:
        """For each pair the log-probability, in nats, of each target token and of the final [EOS].

        Unlike the score of a search, it does not depend on a setting. `on_done` as in `translate`.
        """
        ...


class TorchEngine:
    """A model with PyTorch, in the precision of its `dtype`.

    Sentences of similar length form a batch of up to `max_tokens` tokens, padding and hypotheses
    included. A batch that does not fit the memory is halved, and so are later ones of its size. On
    a CPU each thread searches a batch of its own.
    """

    def __init__(self, model: Transformer, device: torch.device, max_tokens: int = 0) -> None:
        self.model = ready_to_decode(model).eval()
        self.device = device
        self.max_tokens = max_tokens or default_max_tokens(device)

    @property
    def fingerprint(self) -> str:
        """A hash of all weights in their dtype, in hex: another may give other translations."""
        weights = dict(self.model.named_parameters())
        for name, part in self.model.named_modules():
            if isinstance(part, PackedWeights) and part is not self.model.projection:
                weights[f"{name}.weight"] = part.packed.to_dense(self.model.dtype)
        weights.pop("projection.weight", None)  # the embedding's
        return hash_of(weights.values())

    def translate(
        self, sources: Ids, config: NBestConfig, on_done: OnDone = ignore, unrepeated: int = 0
    ) -> list[list[Hypothesis]]:
        """As `Engine.translate`.

        Raises OutOfMemory if a single sentence needs too much memory, UserError if scores are NaN.
        """
        outputs = [[Hypothesis([], score=None)] * config.n_best for _ in sources]
        filled = [row for row, source in enumerate(sources) if len(source)]
        if len(filled) < len(sources):
            on_done(len(sources) - len(filled))
        width, max_tokens = config.rows_per_sentence, self.max_tokens
        if self.device.type == "cpu":
            tokens = sum(len(sources[row]) + 1 for row in filled) * width
            max_tokens = min(max_tokens, max(tokens // CPU_BATCHES, CPU_MIN_TOKENS))
        in_batches = longest_first([sources[row] for row in filled], max_tokens, width)
        batches = [[filled[place] for place in places] for places in in_batches]

        def search(rows: list[int]) -> list[list[Hypothesis]]:
            return self._search_in_memory([sources[row] for row in rows], config, unrepeated)

        num_threads = torch.get_num_threads() if self.device.type == "cpu" else 1
        with thread_map(min(num_threads, len(batches))) as apply:
            for rows, hypotheses in zip(batches, apply(search, batches), strict=True):
                for row, several in zip(rows, hypotheses, strict=True):
                    outputs[row] = several
                on_done(len(rows))
        return outputs

    def _search_in_memory(
        self, sources: Ids, config: NBestConfig, unrepeated: int
    ) -> list[list[Hypothesis]]:
        """As `_search`, but in halves if the memory does not suffice for all sources at once."""
        length, width = len(sources[0]), config.rows_per_sentence  # the first is the longest
        tokens = len(sources) * (length + 1) * width
        name = f"{width} samples" if config.temperature else f"a beam of {width}"
        flag = "--n_best" if config.temperature else "--beam_width"
        advice = f"lower {flag}" if width > 1 else FREE_MEMORY
        if len(sources) == 1 or tokens <= self.max_tokens:
            try:
                where = f"a sentence of {length} tokens with {name}"
                with explain_out_of_memory(self.device, lambda: where, advice):
                    return self._search(sources, config, unrepeated)
            except OutOfMemory:
                if len(sources) == 1:
                    raise
                self.max_tokens = min(self.max_tokens, tokens - 1)  # another thread may have, too
        # Outside of the handler, whose traceback keeps the tensors of the failed search alive.
        half = len(sources) // 2
        halves = sources[:half], sources[half:]
        found = (self._search_in_memory(part, config, unrepeated) for part in halves)
        return [hypotheses for part in found for hypotheses in part]

    @torch.inference_mode()
    def _search(self, sources: Ids, config: NBestConfig, unrepeated: int) -> list[list[Hypothesis]]:
        width, device = config.rows_per_sentence, self.device
        sentences = [np.asarray(source, dtype=np.int64) for source in sources]
        limits = [length_limit(len(sentence)) for sentence in sentences]
        state = self.start(pad(Ragged.of(sentences), last=EOS).to(device), width)
        if config.temperature:
            seeds = [[config.seed, *sentence.tolist()] for sentence in sentences]
            return sample(state, limits, device, seeds, width, config.temperature)
        if width > 1:
            found = beam(state, limits, device, width, config.length_penalty, unrepeated)
            return [hypotheses[: config.n_best] for hypotheses in found]
        return [[hypothesis] for hypothesis in greedy(state, limits, device)]

    def start(self, source_BS: Tensor, width: int) -> SearchState:
        """The state before the first target token of padded sources, which end with [EOS]."""
        return DecodingState(self.model, source_BS, width)

    @torch.inference_mode()
    def log_probs(self, sources: Ids, targets: Ids, on_done: OnDone = ignore) -> list[np.ndarray]:
        """As `Engine.log_probs`. Raises UserError if a log-probability is NaN."""
        pairs = ParallelDataset(Ragged.of(sources), Ragged.of(targets))
        if not len(pairs):
            return []
        # All positions at once need more memory than a search over the same tokens.
        max_tokens = min(self.max_tokens, default_micro_batch_tokens(self.device.type))
        order = np.lexsort((pairs.source.lengths, pairs.target.lengths))
        by_length = pairs.take(order)
        found = []
        for batch in split_into_micro_batches(by_length, [len(order)], max_tokens):
            batch = batch.to(self.device)
            hidden_RD = at_real_positions(self.model(batch.source_BS, batch.target_BT), batch)
            rows = rows_at_once(hidden_RD, self.model.num_outputs)
            parts = zip(hidden_RD.split(rows), batch.labels_R.split(rows), strict=True)
            for hidden_CD, labels_C in parts:
                log_p_CV = self.model.logits(hidden_CD).float().log_softmax(dim=-1)
                found.append(log_p_CV.gather(1, labels_C[:, None])[:, 0].cpu())
            on_done(len(batch.target_BT))
        log_probs = torch.cat(found).numpy()
        if np.isnan(log_probs).any():
            raise UserError(SCORES_ARE_NAN)
        ends = np.cumsum(by_length.target.lengths + 1)
        in_order = np.split(log_probs, ends[:-1])
        return [in_order[place] for place in np.argsort(order)]


def hash_of(tensors: Iterable[Tensor]) -> str:
    """The SHA-256 of the tensors' bytes, in hex."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def default_max_tokens(device: torch.device) -> int:
    return CPU_MAX_TOKENS if device.type == "cpu" else GPU_MAX_TOKENS


def length_limit(source_tokens: int) -> int:
    """Maximum length of a translation, which depends on its own source only."""
    return int(LENGTH_RATIO * (source_tokens + MORE_TOKENS))


def longest_first(sources: Ids, max_tokens: int, width: int = 1) -> list[list[int]]:
    """Batches of indices of sources of similar length, the longest first, up to `max_tokens` each.

    A source takes its tokens and [EOS], padding included, times its `width` hypotheses.
    """
    lengths = np.array([len(source) + 1 for source in sources], dtype=np.int64) * width
    order = np.argsort(-lengths, kind="stable")
    return [rows.tolist() for rows in batch_by_tokens(order, lengths, max_tokens)]


@contextmanager
def thread_map(num_threads: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` that runs in this many threads, each with one core."""
    if num_threads <= 1:
        yield map
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(num_threads) as pool:
            yield pool.map
    finally:
        torch.set_num_threads(before)


def ready_to_decode(model: Transformer) -> Transformer:
    """A copy of the model for inference only, or itself if it is one: cast, joined, and packed.

    It shares unchanged weights with the model, so use it before the model is trained further.
    """
    if model.projection is not None:
        return model
    weight = model.embedding.weight
    in_dtype = {id(p): nn.Parameter(p.detach().to(model.dtype), False) for p in model.parameters()}
    ready = copy.deepcopy(model, memo=in_dtype)
    decoder = [cast(DecoderLayer, layer) for layer in ready.decoder_layers]
    encoder = [cast(EncoderLayer, layer) for layer in ready.encoder_layers]
    for own in [layer.self_attention for layer in (*encoder, *decoder)]:
        _join([(own, "query"), (own, "key_value")])
    _join([(layer.cross_attention, "key_value") for layer in decoder])
    ready.projection = _linear(ready.output_VD)
    if can_pack(weight.device, model.dtype):
        for name in [name for name, part in ready.named_modules() if isinstance(part, Linear)]:
            linear = cast(Linear, ready.get_submodule(name))
            ready.set_submodule(name, PackedWeights(linear.weight, linear.bias))
    return ready


def _join(places: Sequence[tuple[nn.Module, str]]) -> None:
    """Replace the first of these Linear modules by one of all weights, the others by nothing."""
    linears = [cast(Linear, getattr(module, name)) for module, name in places]
    weight, bias = torch.cat([linear.weight for linear in linears]), linears[0].bias
    if bias is not None:  # the others have none
        bias = F.pad(bias, (0, len(weight) - len(bias)))
    for module, name in places:
        setattr(module, name, nn.Identity())
    setattr(*places[0], _linear(weight, bias))


def _linear(weight_OI: Tensor, bias_O: Tensor | None = None) -> Linear:
    linear = Linear(*reversed(weight_OI.shape), bias=bias_O is not None, device="meta")
    linear.weight = nn.Parameter(weight_OI.detach(), False)
    if bias_O is not None:
        linear.bias = nn.Parameter(bias_O.detach(), False)
    return linear


@torch.inference_mode()
def cross_attention(
    model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int]
) -> Tensor:
    """The mean weights of all decoder layers and heads, weights_TS, in fp32 on the CPU.

    A row for the prediction of each target token and of the final [EOS]; a column for each source
    token and the final [EOS]. Each row sums to 1. The ids have no start and end markers.
    """
    device = model.embedding.weight.device
    source_1S = torch.tensor([[*source_ids, EOS]], device=device)
    target_1T = torch.tensor([[SOS, *target_ids]], device=device)
    weights_1HTS: list[Tensor] = []  # one for each layer

    # The model's own attention does not return its weights.
    def record(attention: nn.Module, inputs: tuple[Any, ...]) -> None:
        weights_1HTS.append(attention_weights(cast(Attention, attention), *inputs[:2]))

    with ExitStack() as stack:
        stack.callback(model.train, model.training)
        for layer in model.decoder_layers:
            attention = layer.get_submodule("cross_attention")
            stack.enter_context(attention.register_forward_pre_hook(record))
        model.eval()(source_1S, target_1T)
    return torch.stack(weights_1HTS).mean(dim=(0, 1, 2)).cpu()


def attention_weights(attention: Attention, x_1TD: Tensor, k_1HSK: Tensor) -> Tensor:
    """softmax(q k / sqrt(K)), weights_1HTS in fp32 (Vaswani et al. 2017, eq. 1)."""
    q_1HTK = attention.split_heads(attention.query(x_1TD))
    scores_1HTS = q_1HTK.float() @ k_1HSK.float().transpose(-1, -2)
    return (scores_1HTS * q_1HTK.shape[-1] ** -0.5).softmax(dim=-1)
