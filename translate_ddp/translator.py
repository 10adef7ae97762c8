"""The Python API: opens a trained model from a checkpoint and translates text.

from translate_ddp.translator import Translator

Translator.open("weights").translate(["The old doctor reads the letter."])
"""

import os
import sys
import warnings
from collections.abc import Callable, Sequence

import torch

from translate_ddp.data.sentences import cut, join_sentences, split_sentences
from translate_ddp.data.text import normalize
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.decoding import decode, default_max_tokens
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.precision import choose_dtype
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.cpu_memory import keep_freed_memory
from translate_ddp.runtime.cpus import threads_per_process
from translate_ddp.runtime.device import fix_cuda_kernels
from translate_ddp.runtime.environment import set_defaults
from translate_ddp.runtime.launcher import Launch
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, explain_out_of_memory
from translate_ddp.settings import ModelConfig, SearchConfig
from translate_ddp.training.averaging import open_checkpoint
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.state import RunState

Report = Callable[[int, str], None]  # the index of a text, and a message


def warn_of_text(row: int, message: str) -> None:
    warnings.warn(f"Text {row}: {message}", stacklevel=4)  # the line that calls `translate`


class Translator:
    """A trained model with its tokenizer."""

    def __init__(self, state: RunState, device: torch.device) -> None:
        self.state = state
        self.tokenizer = Tokenizer(state.tokenizer)
        # The precision it was trained in, if this device has it.
        dtype = choose_dtype(state.run.config["train"]["precision"], device)
        model = build_model(state, len(self.tokenizer), dtype).to(device, dtype)
        self.model = ready_to_decode(model).eval()
        self.device = device

    @classmethod
    def open(
        cls,
        model_folder: str = CheckpointConfig.model_folder,
        preload: str = CheckpointConfig.preload,
        model_basename: str = CheckpointConfig.model_basename,
        average: int = 0,
    ) -> "Translator":
        """Open a checkpoint: "latest", "best", an epoch's number, or the path of a file.

        The file alone is enough. The weights are the average of `average` epochs up to that one; 0
        is the setting of the run, which does not apply to "best" and to files. Raises UserError if
        there is no checkpoint that can be used.
        """
        set_defaults(os.environ)
        keep_freed_memory()
        fix_cuda_kernels()
        torch.set_num_threads(threads_per_process(Launch()))
        store = CheckpointStore(CheckpointConfig(model_folder, model_basename))
        opened = open_checkpoint(store, preload, average)
        for line in opened.messages:
            print(line, file=sys.stderr)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with explain_out_of_memory(device, lambda: f"loading {opened.path}", FREE_MEMORY):
                return cls(opened.state, device)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"The model in {opened.path} does not fit its settings: {first_line(error)}"
            ) from error

    def translate(
        self,
        texts: Sequence[str],
        beam_width: int = SearchConfig.beam_width,
        length_penalty: float = SearchConfig.length_penalty,
        report: Report = warn_of_text,
    ) -> list[str]:
        """A translation of each text, in order, as one line; "" of a blank text.

        Beam width 1 is greedy. The sentences of a text are translated one by one. A sentence longer
        than those of training is cut into parts; `report` gets the index of its text and a message.
        """
        rows, parts = self._parts(texts, report)
        found = decode(
            self.model.start,
            parts,
            self.device,
            beam_width=beam_width,
            length_penalty=length_penalty,
            max_tokens=default_max_tokens(self.device),
        )
        decoded = self.tokenizer.decode([hypothesis.ids for hypothesis in found])
        translations: list[list[str]] = [[] for _ in texts]
        for row, text in zip(rows, decoded, strict=True):
            translations[row].append(normalize(text))
        language = self.state.run.config["corpus"]["lang_tgt"]
        return [join_sentences(sentences, language) for sentences in translations]

    def _parts(self, texts: Sequence[str], report: Report) -> tuple[list[int], list[list[int]]]:
        """The sentences of all texts in parts that fit the model, as ids, and the texts' indices.

        Pairs of more than `seq_len` tokens, end marker included, are not in training.
        """
        limit = self.state.run.config["batches"]["seq_len"] - 1
        # An argument of the command line that is not UTF-8 holds lone surrogates.
        valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        split = [split_sentences(normalize(text)) for text in valid]
        sentences = [(row, sentence) for row, found in enumerate(split) for sentence in found]
        rows, parts = [], []
        encoded = self.tokenizer.encode([sentence for _, sentence in sentences])
        for (row, _), ids in zip(sentences, encoded, strict=True):
            cuts = [slice(None)]
            if len(ids) > limit:
                cuts = cut(self.tokenizer.decode([[token] for token in ids]), limit)
                report(
                    row,
                    f"a sentence of {len(ids):,} tokens, more than the {limit:,} of training, is "
                    f"translated in {len(cuts)} parts.",
                )
            parts += [ids[part] for part in cuts]
            rows += [row] * len(cuts)
        return rows, parts


def build_model(
    state: RunState, vocabulary: int, dtype: torch.dtype = torch.float32
) -> Transformer:
    """The model of a checkpoint. Its parameters are the tensors in `state`.

    Nothing else is allocated, so a file that declares huge shapes needs no memory for them. Raises
    ValueError or RuntimeError if the tensors do not fit the configuration.
    """
    config = ModelConfig(**state.run.config["model"])
    if config.num_encoder_layers + config.num_decoder_layers > len(state.model):
        raise ValueError("there are fewer tensors than layers.")
    with torch.device("meta"):
        model = Transformer(config, vocabulary, dtype=dtype)
    model.load_state_dict(state.model, assign=True)
    return model
