"""The encoded corpus: tokenized once, stored as flat arrays that all ranks map into memory.

The name of a prepared folder is a hash of the settings and of the files that it was made from, so
later starts find it.
"""

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from itertools import chain, compress
from pathlib import Path

import numpy as np

from translate_ddp.console import print_line
from translate_ddp.data.corpus import CleanedCorpus, clean_corpus, corpus_signature, delete_cleaned
from translate_ddp.data.dataset import Ragged
from translate_ddp.data.encoding import Encoder, encode
from translate_ddp.data.pair_store import BATCH_PAIRS, Pair, batched
from translate_ddp.data.prepared_folder import Summary, is_usable, publish
from translate_ddp.data.selection import parts, smallest
from translate_ddp.data.sentences import learn_abbreviations
from translate_ddp.data.tagging import TaggedCorpus
from translate_ddp.data.tokenizer import Tokenizer, build_tokenizer, loss_of
from translate_ddp.data.training_sample import MAX_LINES
from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.settings import CorpusConfig, TokenizerConfig
from translate_ddp.text import base_language

FORMAT = 8  # of the prepared folder; raise it with every change, and corpora are prepared again
SIDES = ("src", "tgt")
CHECKED_PAIRS = 1000  # with a tokenizer of another program


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    seq_len: int,
    folder: Path,
    perturb: bool = False,
    shown: bool = True,
) -> Path:
    """The prepared folder below `folder`: read, tokenized and stored, unless it exists intact.

    Pairs with more than `seq_len` tokens on one side, end marker included, are dropped and counted.
    With `perturb`, the tokenizer is trained on sources that are perturbed as in training.
    Raises UserError if the corpus cannot be read or stored.
    """

    def path(signature: str) -> Path:
        return folder / _folder_name(signature, corpus, tokenizer, seq_len, perturb)

    prepared = path(corpus_signature(corpus))
    if not is_usable(prepared):
        cleaned = clean_corpus(corpus, folder, shown)

        def write(partial: Path) -> tuple[Path, Summary]:
            summary = _write(partial, cleaned, corpus, tokenizer, seq_len, perturb, shown)
            # The name covers the tokenizer file, which may have been written just now, and the
            # sources as they were read: they may have changed since.
            return path(cleaned.signature), summary

        prepared = publish(folder, write)
    delete_cleaned(folder)
    return prepared


def _folder_name(
    signature: str, corpus: CorpusConfig, tokenizer: TokenizerConfig, seq_len: int, perturb: bool
) -> str:
    """The languages and a hash of all inputs of a preparation."""
    file = tokenizer.file(corpus.language_pair)
    try:
        tokenizer_bytes = file.read_bytes() if file is not None else b""
    except (FileNotFoundError, NotADirectoryError):
        tokenizer_bytes = b""  # the preparation will write it
    except OSError as error:
        raise UserError(f"--tokenizer_file {file} cannot be read: {error.strerror}.") from error
    inputs = [FORMAT, signature, asdict(corpus), asdict(tokenizer), seq_len]
    inputs += ["perturb"] if perturb else []
    digest = hashlib.sha256(json.dumps(inputs).encode() + tokenizer_bytes)
    return f"{corpus.language_pair}-{digest.hexdigest()[:12]}"


def _write(
    folder: Path,
    corpus: CleanedCorpus,
    config: CorpusConfig,
    tokenizer_config: TokenizerConfig,
    seq_len: int,
    perturb: bool,
    shown: bool,
) -> Summary:
    """Fill the folder; returns the summary, without digests."""
    fault_point("tokenizing")
    tagged = TaggedCorpus(corpus, config)
    chosen = smallest(corpus.hashes, corpus.is_train, MAX_LINES)  # more would take longer to read
    lines = tagged.lines(chosen, perturb)
    tokenizer = build_tokenizer(lines, tokenizer_config, config.language_pair)
    if tokenizer_config.tokenizer_file and shown:
        _warn_of_loss(tokenizer, corpus.validation()[:CHECKED_PAIRS])
    (folder / "tokenizer.json").write_text(tokenizer.text, encoding="utf-8")
    encoder = Encoder(tokenizer.text, seq_len)
    dropped = Counter(corpus.dropped)
    validation = corpus.validation()
    splits = {
        "train": (tagged.training(), sum(tagged.sizes)),
        "validation": (batched(tagged.validation(), BATCH_PAIRS), len(validation)),
    }
    fits: dict[str, np.ndarray] = {}
    for split, (batches, count) in splits.items():
        fits[split] = encode(batches, count, encoder, folder / split, shown)
        if not fits[split].any():
            raise UserError(
                f"None of the {count:,} {split} pairs fits --seq_len {seq_len}: raise it."
            )
        if over := count - int(fits[split].sum()):
            dropped[f"over {seq_len} tokens"] += over
    for side, name in enumerate(SIDES):
        texts = compress((pair[side] for pair in validation), fits["validation"].tolist())
        lines = "".join(f"{text}\n" for text in texts)
        (folder / f"validation.{name}.txt").write_text(lines, encoding="utf-8")
    ends = np.cumsum(tagged.sizes)[:-1]
    learnt: dict[str, list[str]] = {}
    for side, language in enumerate(config.languages[: 1 + config.bidirectional]):
        texts = (pair[side] for pairs in corpus.batches(chosen) for pair in pairs)
        learnt[base_language(language)] = learn_abbreviations(texts)
    return {
        "learnt": learnt,
        "dropped": dict(dropped),
        "reports": [asdict(report) for report in corpus.reports],
        "sizes": [int(part.sum()) for part in np.split(fits["train"], ends)],
        "fingerprint": _fingerprint(folder / "train", tokenizer.text),
        "validation_fingerprint": _fingerprint(folder / "validation"),
    }


def _warn_of_loss(tokenizer: Tokenizer, pairs: list[Pair]) -> None:
    if loss := loss_of(tokenizer, list(chain.from_iterable(pairs))):
        print_line(loss)


def _fingerprint(stem: Path, text: str = "") -> str:
    """sha256 of the text and of both sides of the pairs."""
    digest = hashlib.sha256(text.encode())
    for side in SIDES:
        rows = Ragged.open(Path(f"{stem}.{side}"))
        for array in (rows.offsets, rows.tokens):
            for part in parts(len(array)):
                digest.update(np.ascontiguousarray(array[part]).data)
    return digest.hexdigest()
