"""bf16 changes losses and gradients a little, and nothing else; dtypes and warnings by device."""

from pathlib import Path

import pytest
import torch

from tests.helpers.models import small_batch, small_model
from translate_ddp.modeling.engine import TorchEngine
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.precision import choose_dtype, precision_warning
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.device import fix_cuda_kernels
from translate_ddp.runtime.world import World
from translate_ddp.settings import LossConfig
from translate_ddp.training.build import choose_common_dtype
from translate_ddp.training.checkpoint_file import load
from translate_ddp.translator import Translator

CPU = torch.device("cpu")


@pytest.fixture
def model() -> Transformer:
    return small_model(d_model=64)


def test_bf16_loss_and_gradients_are_close_to_fp32(model: Transformer):
    losses, grads = [], []
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        model.dtype = dtype
        loss = Objective(model, LossConfig())(small_batch())["loss"]
        loss.backward()
        losses.append(loss.item())
        grads.append({name: p.grad.clone() for name, p in model.named_parameters()})  # pyright: ignore
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=5e-3)
    for name, plain in grads[0].items():
        error = (grads[1][name] - plain).norm() / plain.norm()
        assert error < 0.1, name
        assert grads[1][name].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_become_ready_layer_by_layer(model: Transformer, dtype: torch.dtype):
    # DDP sums the gradients of a layer over the ranks while it computes those of the next.
    ready: list[str] = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: ready.append(name))
    model.dtype = dtype
    Objective(model, LossConfig())(small_batch())["loss"].backward()
    backwards = ["decoder_norm", "decoder_layers.1", "decoder_layers.0", "encoder_norm"]
    backwards += ["encoder_layers.1", "encoder_layers.0", "embedding"]
    # `encode` applies cross_attention.key_value, so its gradients come after its decoder layer's.
    parts = [part for name in ready for part in backwards if name.startswith(part)]
    firsts = [parts.index(part) for part in backwards]
    assert firsts == sorted(firsts)
    assert len(parts) == len(ready) == len(list(model.parameters()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backward_has_no_copies_for_in_place_changes(model: Transformer, dtype: torch.dtype):
    model.dtype = dtype
    model.train()
    loss = Objective(model, LossConfig())(small_batch())["loss"]
    found, to_visit = set(), [loss.grad_fn]
    while to_visit:
        if (node := to_visit.pop()) is not None and node not in found:
            found.add(node)
            to_visit += [following for following, _ in node.next_functions]
    names = {node.name() for node in found}
    assert "ReluBackward0" in names and not any("CopySlices" in name for name in names)


def test_all_activations_but_embeddings_are_bf16(model: Transformer):
    seen: list[torch.dtype] = []
    for module in model.modules():
        module.register_forward_hook(
            lambda *call: seen.append(call[-1].dtype) if torch.is_tensor(call[-1]) else None
        )
    model.dtype = torch.bfloat16
    Objective(model, LossConfig())(small_batch())
    # The two embedding look-ups are fp32.
    assert seen.count(torch.float32) == 2 and seen.count(torch.bfloat16) > 20


def test_auto_is_bf16_on_cpus_with_its_instructions(monkeypatch: pytest.MonkeyPatch):
    for name in ("avx512_bf16", "amx_tile", "avx2"):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda name=name: {name: True})
        assert choose_dtype("auto", CPU) == (torch.float32 if name == "avx2" else torch.bfloat16)
        assert choose_dtype("fp32", CPU) == torch.float32
        assert choose_dtype("bf16", CPU) == torch.bfloat16


@pytest.mark.parametrize("instructions", ["avx512_bf16", "avx2"])
@pytest.mark.parametrize("of_training", ["bf16", "auto", "fp32"])
def test_a_model_is_used_in_bf16_only_where_the_device_has_it(
    trained: Path, monkeypatch: pytest.MonkeyPatch, of_training: str, instructions: str
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {instructions: True})
    state = load(next(trained.glob("tmodel_epoch_0001_*")))
    state.run.config["train"]["precision"] = of_training
    is_bf16 = instructions == "avx512_bf16" and of_training != "fp32"
    expected = torch.bfloat16 if is_bf16 else torch.float32
    assert dtype_of(Translator.of(state, CPU)) == expected
    assert dtype_of(Translator.of(state, CPU, "bf16")) == torch.bfloat16


def dtype_of(translator: Translator) -> torch.dtype:
    assert isinstance(translator.engine, TorchEngine)
    return translator.engine.model.dtype


def test_fix_cuda_kernels_overrides_defaults_of_torch():
    torch.backends.cuda.enable_cudnn_sdp(True)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    fix_cuda_kernels()
    # cuDNN's attention gives NaN gradients, and makes a slow plan for each shape.
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("others", "expected"),
    [([torch.bfloat16] * 2, torch.bfloat16), ([torch.bfloat16, torch.float32], torch.float32)],
)
def test_ranks_compute_in_fp32_if_one_of_them_has_no_bf16(
    monkeypatch: pytest.MonkeyPatch, others: list[torch.dtype], expected: torch.dtype
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    monkeypatch.setattr(World, "gather", lambda self, value: [value, *others])
    assert choose_common_dtype("auto", World()) == expected


def test_gpu_without_bf16_gives_a_warning(monkeypatch: pytest.MonkeyPatch):
    gpu = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    assert choose_dtype("auto", gpu) == torch.float32
    assert "Tesla T4 has no bf16, and fp16 is not" in str(precision_warning("auto", gpu))
    assert "only emulates bf16" in str(precision_warning("bf16", gpu))
    assert precision_warning("fp32", gpu) is None
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert choose_dtype("auto", gpu) == torch.bfloat16
    assert precision_warning("auto", gpu) is None
    assert precision_warning("auto", CPU) is None
