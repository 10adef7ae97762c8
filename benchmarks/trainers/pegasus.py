"""The model of `transformers` whose shape is ours: a Pegasus, made for training."""

from transformers import PegasusConfig, PegasusForConditionalGeneration

from benchmarks.trainers.task import Task
from translate_ddp.tokenizer import EOS, PAD, SOS


def build_model(task: Task) -> PegasusForConditionalGeneration:
    """With random weights; it needs neither a trainer of that library nor `datasets`."""
    config = PegasusConfig(
        vocab_size=task.vocabulary,
        d_model=task.d_model,
        encoder_layers=task.num_encoder_layers,
        decoder_layers=task.num_decoder_layers,
        encoder_attention_heads=task.num_heads,
        decoder_attention_heads=task.num_heads,
        encoder_ffn_dim=task.d_ff,
        decoder_ffn_dim=task.d_ff,
        dropout=task.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=task.seq_len,
        use_cache=False,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=SOS,
        forced_eos_token_id=None,
    )
    return PegasusForConditionalGeneration(config)
