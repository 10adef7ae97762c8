"""A simulated GPU: its tensors have shapes, dtypes and a device, but no memory and no values.

An operation that mixes them with a CPU tensor raises, and so does one that makes the host wait for
a value. `Launches` counts the operations that launch a kernel on a GPU.

A torch built without CUDA has no tensors on "cuda", so the device is torch's extension point for
other accelerators, renamed. The renaming lasts for the whole process: use it in a process of its
own. The fake tensors and the renaming are private parts of torch.
"""

import collections
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import clip_grad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from translate_ddp.data.batches import Batch
from translate_ddp.modeling.folded_attention import MASK_ALIGNMENT
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.presets import PRESETS
from translate_ddp.settings import ModelConfig

ModuleT = TypeVar("ModuleT", bound=nn.Module)
# Operations on shapes, allocations and properties: they launch no kernel.
WITHOUT_KERNEL = frozenset(
    "_unsafe_view alias as_strided chunk detach device empty empty_like empty_strided expand "
    "lift_fresh new_empty new_empty_strided permute select slice split split_with_sizes squeeze t "
    "tensor_split transpose unbind unsqueeze view".split()
)


@contextmanager
def fake_gpu() -> Iterator[torch.device]:
    """The device; within the context, tensors made on it are fake."""
    _setup_privateuseone_for_python_backend(rename="fake_gpu")
    clip_grad._has_foreach_support = lambda *_: True  # as on CUDA
    with FakeTensorMode(allow_non_fake_inputs=True), CudaKernels():
        yield torch.device("fake_gpu", 0)


def to_fake(module: ModuleT, device: torch.device) -> ModuleT:
    """The module, whose parameters are replaced by fake ones."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            fake = torch.empty(parameter.shape, dtype=parameter.dtype, device=device)
            setattr(part, name, nn.Parameter(fake))
    return module


def base_model(device: torch.device) -> Transformer:
    """The preset base in bf16 on a fake device, with a vocabulary that is no multiple of 64."""
    preset = {k: v for k, v in PRESETS["base"].items() if k in ModelConfig.__annotations__}
    with torch.device("meta"):
        model = Transformer(ModelConfig(**preset), 31_990, dtype=torch.bfloat16)  # pyright: ignore
    return to_fake(model, device)


def fake_batch(device: torch.device, rows: int, source: int, target: int, real: int) -> Batch:
    shapes = [(rows, source), (rows, target), (real,), (real,)]
    return Batch(*(torch.ones(shape, dtype=torch.int64, device=device) for shape in shapes))


class Launches(TorchDispatchMode):
    """Counts the operations that launch a kernel, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: collections.Counter[str] = collections.Counter()
        self.columns_of_products: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func._schema.name.partition("::")[2]  # pyright: ignore
        result = func(*args, **(kwargs or {}))
        is_view = name in ("reshape", "to") and torch._C._is_alias_of(result, args[0])  # pyright: ignore
        if name not in WITHOUT_KERNEL and not is_view:
            self.counts[name] += 1
        if name == "mm":
            self.columns_of_products.add(result.shape[-1])
        return result


class CudaKernels(TorchFunctionMode):
    """Attention in one kernel, as on CUDA; `x[...]`, and tensors of lists of integers.

    The mask must have the dtype and strides that the kernel reads without a copy. Torch's own
    indexing looks for a driver of the device, and its `tensor` for memory.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            return attention(*args, **(kwargs or {}))
        if func is Tensor.__getitem__:
            return get_item(*args)
        if func is Tensor.__setitem__:
            return set_item(*args)
        if func is torch.tensor and kwargs and kwargs.get("device"):
            return torch.empty(np.shape(args[0]), dtype=torch.int64, device=kwargs["device"])
        return func(*args, **(kwargs or {}))


def attention(
    q_BHTK: Tensor,
    k_BHMK: Tensor,
    v_BHMK: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
) -> Tensor:
    if attn_mask is None:
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(q_BHTK, k_BHMK, v_BHMK, dropout_p, is_causal)[0]
    assert attn_mask.dtype == q_BHTK.dtype, "attention casts the mask at each call"
    is_aligned = all(stride % MASK_ALIGNMENT == 0 for stride in attn_mask.stride()[:-1])
    assert is_aligned, "attention copies the mask"
    mask_BHTM = attn_mask.expand(*q_BHTK.shape[:3], k_BHMK.shape[2])
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    return efficient(q_BHTK, k_BHMK, v_BHMK, mask_BHTM, torch.is_grad_enabled(), dropout_p)[0]


def set_item(tensor: Tensor, key: Any, value: Any) -> None:
    if isinstance(key, tuple) and any(isinstance(part, Tensor) for part in key):
        torch.ops.aten.index_put_(tensor, key, value)
    elif isinstance(value, Tensor):
        get_item(tensor, key).copy_(value)
    else:
        get_item(tensor, key).fill_(value)


def get_item(tensor: Tensor, key: Any) -> Tensor:
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, Tensor) for part in keys):
        indices = [part if isinstance(part, Tensor) else None for part in keys]
        return torch.ops.aten.index.Tensor(tensor, indices)
    if Ellipsis in keys:
        place = keys.index(Ellipsis)
        missing = tensor.dim() - sum(part is not None for part in keys) + 1
        keys = (*keys[:place], *[slice(None)] * missing, *keys[place + 1 :])
    dimension = 0
    for part in keys:
        if part is None:
            tensor = tensor.unsqueeze(dimension)
        elif isinstance(part, slice):
            start, stop, step = part.indices(tensor.shape[dimension])
            tensor = torch.ops.aten.slice.Tensor(tensor, dimension, start, stop, step)
        else:
            tensor = tensor.select(dimension, part)
            continue
        dimension += 1
    return tensor
