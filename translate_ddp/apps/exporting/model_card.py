"""The README.md of an exported model: what it is, how it was made, its scores, how to use it."""

from translate_ddp import __version__
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import Verification
from translate_ddp.data.languages import language_name
from translate_ddp.quantities import counted
from translate_ddp.text import base_language, prefix_of
from translate_ddp.training.local_paths import dataset_names, public_name
from translate_ddp.training.metrics import UNITS


def huggingface_card(model: TrainedModel, verification: Verification, name: str) -> str:
    """The card of a folder for `transformers`, with the header that the hub reads."""
    tag = prefix_of(*model.tags[:1])
    usage = f"""```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForSeq2SeqLM.from_pretrained("{name}")
inputs = tokenizer(["{tag}A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```

It translates one sentence at a time, of up to {model.longest_source} tokens."""
    if model.tags:
        tags = describe_tags(model)
        usage += f"\n\n{tags[0].upper()}{tags[1:]}."
    # Quoted: in YAML, the code of Norwegian is a truth value.
    languages = "".join(f'- "{base_language(code)}"\n' for code in model.languages)
    header = (
        f"---\nlanguage:\n{languages}library_name: transformers\npipeline_tag: translation\n---"
    )
    return "\n\n".join([header, _body(model, verification), f"## Use\n\n{usage}\n"])


def argos_card(model: TrainedModel, verification: Verification) -> str:
    """The README.md of a package for Argos Translate."""
    return f"{_body(model, verification)}\n"


def describe_tags(model: TrainedModel) -> str:
    """How the sources of a bidirectional model are written for other programs."""
    names = [language_name(target) for target in reversed(model.languages)]
    tags = (f"{tag} to translate into {name}" for tag, name in zip(model.tags, names, strict=True))
    return f"other programs must write a tag and a blank before each sentence: {', '.join(tags)}"


def _body(model: TrainedModel, verification: Verification) -> str:
    source, target = map(language_name, model.languages)
    to = "and" if model.is_bidirectional else "to"
    shape, position = model.shape, model.state.position
    corpus = ", ".join(map(public_name, dataset_names(model.config)))
    facts = [
        f"Languages: {source} ({model.languages[0]}) {to} {target} ({model.languages[1]})",
        f"Architecture: Transformer, {shape.num_encoder_layers} encoder and "
        f"{shape.num_decoder_layers} decoder layers, width {shape.d_model}, feed-forward "
        f"{shape.d_ff}, {shape.num_heads} heads; {model.parameters:,} parameters",
        f"Vocabulary: {len(model.tokenizer):,} tokens, joint for both languages",
        f"Training: {counted(position.current_epoch, 'epoch')}, "
        f"{counted(position.global_step, 'step')}, on {corpus}, "
        f"fingerprint {model.data or 'unknown'}",
        f"Made with translate_ddp {__version__}",
    ]
    listed = "\n".join(f"- {fact}" for fact in facts)
    sections = [f"# {source} {to} {target}", listed, f"## Scores\n\n{_scores(verification)}"]
    if verification.lines or verification.notes:
        verified = "\n".join(f"- {line}" for line in [*verification.lines, *verification.notes])
        sections.append(f"## Compared with the checkpoint\n\n{verified}")
    return "\n\n".join(sections)


def _scores(verification: Verification) -> str:
    if not verification.scores:
        return "Not measured."
    rows = [
        f"| {name} | {value:.4g} | {UNITS[name]} |" for name, value in verification.scores.items()
    ]
    table = "\n".join(["| metric | score | unit |", "|---|---:|---|", *rows])
    return f"{table}\n\nGreedy translations. BLEU signature: {verification.bleu_signature}"
