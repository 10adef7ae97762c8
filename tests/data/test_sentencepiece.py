"""SentencePiece, an optional dependency: round trips, special tokens, files, and a whole run."""

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from translate_ddp.data.tokenizer import (
    EOS,
    PAD,
    SPECIAL_TOKENS,
    Tokenizer,
    build_tokenizer,
    load_tokenizer,
    loss_of,
    train_tokenizer,
)
from translate_ddp.data.tokenizer_models import import_sentencepiece
from translate_ddp.errors import UserError
from translate_ddp.settings import TokenizerConfig

pytestmark = pytest.mark.skipif(
    find_spec("sentencepiece") is None, reason="sentencepiece is not installed"
)
LINES = ["the cat sleeps in the house", "il gatto dorme nella casa", "perché no?"] * 3
KINDS = ["sentencepiece", "sentencepiece_bpe"]


def config(tokenizer: str = "sentencepiece", **changes: Any) -> TokenizerConfig:
    settings: dict[str, Any] = {"tokenizer": tokenizer, "vocab_size": 300} | changes
    return TokenizerConfig(**settings)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(kind: str) -> Tokenizer:
    return train_tokenizer(LINES, config(kind))


def train_elsewhere(**settings: Any) -> bytes:
    """A model as another program trains it."""
    model = io.BytesIO()
    import_sentencepiece().SentencePieceTrainer.Train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **({"vocab_size": 40} | settings),
    )
    return model.getvalue()


def test_same_lines_give_the_same_model_of_at_most_the_size(kind: str, tokenizer: Tokenizer):
    again = train_tokenizer(LINES, config(kind))
    assert again.text == tokenizer.text and again.fingerprint == tokenizer.fingerprint
    assert train_tokenizer([*LINES, "sole e luna"] * 2, config(kind)).text != tokenizer.text
    # These lines have fewer pieces than the maximum.
    large = train_tokenizer(LINES, config(kind, vocab_size=50_000))
    assert 260 < len(tokenizer) <= 300 and 260 < len(large) < 400


def test_kinds_are_models_of_these_names(kind: str, tokenizer: Tokenizer):
    # "the cat" as SentencePiece's own trainer segments it.
    model = import_sentencepiece().SentencePieceProcessor(
        model_proto=train_elsewhere(
            model_type="unigram" if kind == "sentencepiece" else "bpe",
            **dict(pad_id=0, unk_id=1, bos_id=2, eos_id=3, byte_fallback=True),
            **dict(normalization_rule_name="identity", remove_extra_whitespaces=False),
            **dict(vocab_size=300, num_threads=1),
        )
    )
    assert tokenizer.encode(LINES) == model.encode(LINES)
    other = train_tokenizer(LINES, config(KINDS[kind == KINDS[0]]))
    assert other.encode(LINES) != tokenizer.encode(LINES)


def test_other_program_reads_the_file_and_encodes_alike(
    tmp_path: Path, kind: str, tokenizer: Tokenizer
):
    path = tmp_path / "en-it.model"
    given = config(kind, tokenizer_file=str(tmp_path / "{0}.model"))
    assert build_tokenizer(LINES, given, "en-it").text == tokenizer.text
    model = import_sentencepiece().SentencePieceProcessor(model_file=str(path))
    assert [model.id_to_piece(i) for i in range(4)] == SPECIAL_TOKENS
    assert model.encode(LINES) == tokenizer.encode(LINES)
    loaded = build_tokenizer(["other lines"], given, "en-it")
    assert loaded.text == load_tokenizer(path).text == tokenizer.text
    # The file counts, not --tokenizer.
    bpe = TokenizerConfig(tokenizer_file=str(path))
    assert build_tokenizer(["other lines"], bpe, "en-it").text == tokenizer.text


def test_model_of_another_program_is_accepted_if_its_special_ids_fit(tmp_path: Path):
    path = tmp_path / "other.model"
    path.write_bytes(train_elsewhere(pad_id=0, unk_id=1, bos_id=2, eos_id=3, model_type="bpe"))
    tokenizer = load_tokenizer(path)
    assert tokenizer.decode(tokenizer.encode(["il gatto"])) == ["il gatto"]
    path.write_bytes(train_elsewhere())
    with pytest.raises(UserError, match=r"pad -1, unk 0, bos 1, eos 2 .*: train it with --pad_id"):
        load_tokenizer(path)


@pytest.mark.parametrize("content", [b"\nnot a model", b'{"sentencepiece": "AAAA"}'])
def test_damaged_model_is_reported(tmp_path: Path, content: bytes):
    path = tmp_path / "x.model"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.model cannot be used as tokenizer: it is not a Sent"):
        load_tokenizer(path)


def test_vocabulary_too_small_for_the_characters_names_the_size_needed(kind: str):
    lines = ["".join(map(chr, range(0x4E00, 0x4E80)))] * 3  # 128 characters, and the space
    with pytest.raises(UserError, match=r"--vocab_size 300 is too small .* need 389 pieces"):
        train_tokenizer(lines, config(kind))
    assert len(train_tokenizer(lines, config(kind, vocab_size=389))) == 389


def test_normalization_of_another_program_is_described_as_loss(tmp_path: Path):
    ids: dict[str, int] = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    rule = "nmt_nfkc_cf"  # it lower-cases
    (tmp_path / "x.model").write_bytes(train_elsewhere(normalization_rule_name=rule, **ids))
    loss = loss_of(load_tokenizer(tmp_path / "x.model"), ["no", "Il Gatto", "x"])
    assert loss is not None and "2 of 3 lines, such as 'x' to '⁇'" in loss


def test_sentence_begins_with_a_space_that_is_not_decoded(tokenizer: Tokenizer):
    # Argos Translate joins the tokens of sentences, and expects this space between them.
    (ids,) = tokenizer.encode(["il gatto 😀"])
    names = [tokenizer.names[i] for i in ids]
    assert names[0].startswith("\u2581")
    assert tokenizer.decode([ids]) == ["il gatto 😀"]
    pieces = tokenizer.pieces([*ids[:-4], EOS, PAD])  # without the emoji's bytes
    assert "".join(pieces) == " il gatto "
    assert set(tokenizer.pieces(ids[-4:])) == {"\ufffd"}
