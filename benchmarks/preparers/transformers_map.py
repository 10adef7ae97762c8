"""transformers: `load_dataset` and `Dataset.map` with a fast tokenizer, as in its run_translation.

Before, it trains a tokenizer with the function of translate_ddp. There is no cleaning and no split.
It ends with the encoded corpus in the cache of `datasets`, before a model is built.
"""

import json
import time
from typing import Any, cast

from datasets import Dataset, load_dataset
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast  # pyright: ignore[reportMissingImports]

from benchmarks.common import read_settings
from benchmarks.preparers import Task
from translate_ddp.data.tokenizer import EOS, train_tokenizer
from translate_ddp.settings import TokenizerConfig

MAX_TOKENS = 256  # longer sentences are cut
READ_ROWS = 10_000  # at once, for the tokenizer


def main() -> None:
    task = read_settings(Task, __doc__)
    begin = time.monotonic()
    table = load_dataset("json", data_files={"train": str(task.jsonl)}, split="train")
    loaded = time.monotonic()
    tokenizer = build_tokenizer(cast("Dataset", table), task)
    trained = time.monotonic()
    encode(cast("Dataset", table), tokenizer, task)
    end = time.monotonic()
    parts = {"load": loaded - begin, "tokenizer": trained - loaded, "map": end - trained}
    print(json.dumps({"parts": parts}))


def build_tokenizer(table: Dataset, task: Task) -> Any:
    """A fast tokenizer that ends each sentence with an end marker."""
    rows = min(len(table), task.tokenizer_pairs)
    lines = (
        text
        for start in range(0, rows, READ_ROWS)
        for pair in table[start : min(start + READ_ROWS, rows)]["translation"]
        for text in (pair[task.lang_src], pair[task.lang_tgt])
    )
    trained = train_tokenizer(lines, TokenizerConfig(vocab_size=task.vocab_size))
    model = Tokenizer.from_str(trained.text)
    template = TemplateProcessing(single="$A [EOS]", special_tokens=[("[EOS]", EOS)])
    cast("Any", model).post_processor = template
    return PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
    )


def encode(table: Dataset, tokenizer: Any, task: Task) -> Dataset:
    """The corpus as ids: input_ids, attention_mask and labels."""

    def preprocess(examples: dict[str, Any]) -> Any:
        inputs = [pair[task.lang_src] for pair in examples["translation"]]
        targets = [pair[task.lang_tgt] for pair in examples["translation"]]
        found = tokenizer(inputs, max_length=MAX_TOKENS, truncation=True)
        labels = tokenizer(text_target=targets, max_length=MAX_TOKENS, truncation=True)
        found["labels"] = labels["input_ids"]
        return found

    return table.map(
        preprocess, batched=True, num_proc=task.processes, remove_columns=table.column_names
    )


if __name__ == "__main__":
    main()
