"""What a model is beside its weights."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from translate_ddp.data.identifier import Identifier
from translate_ddp.data.tokenizer import ExtraTokens, Tokenizer
from translate_ddp.directions import LanguagePair, languages_of
from translate_ddp.text import base_language

MORE_TOKENS = 10  # added to the length of a source; a multiple of the sum limits its translation


class LengthRatios(NamedTuple):
    """How many tokens targets have for their sources, in the training pairs of a direction."""

    most: float  # for each token of the source and `MORE_TOKENS`: 1 pair in 1,000 has more
    median: float  # for each token of the source


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """What a model is beside its weights.

    The preparation of its training data makes it. It is kept with the data, in checkpoints and in
    exported folders, as the plain values of `to_dict`.
    """

    tokenizer: Tokenizer
    extra: ExtraTokens
    directions: Sequence[LanguagePair]
    longest_source: int  # tokens, without [EOS]: few sources of training are longer
    abbreviations: Mapping[str, Sequence[str]]  # language -> learnt ones
    length_ratios: Mapping[str, LengthRatios]  # by the name of a direction
    identifier: Identifier | None  # finds the language of a text; None: the model has no tags

    @property
    def languages(self) -> list[str]:
        return languages_of(self.directions)

    @property
    def has_several(self) -> bool:
        return len(self.directions) > 1

    @property
    def usual_direction(self) -> LanguagePair | None:
        """The first direction of a model of two languages; None: one has to be chosen."""
        first = self.directions[0]
        return first if {first, first.reverse}.issuperset(self.directions) else None

    @property
    def num_tokens(self) -> int:
        """The rows of the embedding."""
        return len(self.tokenizer) + len(self.extra.names)

    @property
    def num_outputs(self) -> int:
        """The number of tokens that can be generated, the first ones of the vocabulary."""
        return len(self.tokenizer) + self.extra.num_spans

    @property
    def can_swap(self) -> bool:
        """Whether only the language of a source shows its direction: targets have no tags."""
        src, tgt = self.directions[0]
        return base_language(src) != base_language(tgt) and not self.tag(self.directions[0])

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()

    def tag(self, direction: LanguagePair) -> list[int]:
        """The token ids before the sources of a direction; none if the model has no tags."""
        return list(self.extra.tag(self.tokenizer, direction.tgt))

    def continued(self, known: "ModelFacts") -> Self:
        """The facts of a model that starts from the weights of the `known` one.

        It keeps longer sources and more abbreviations than its own training data have.
        """
        learnt, others = dict(self.abbreviations), known.abbreviations
        for language in {*learnt, *others}:
            learnt[language] = sorted({*learnt.get(language, ()), *others.get(language, ())})
        longest = max(self.longest_source, known.longest_source)
        return replace(self, longest_source=longest, abbreviations=learnt)

    def to_dict(self) -> dict[str, Any]:
        """Numbers, strings, lists and dicts, which any file can hold."""
        return {
            "directions": [list(pair) for pair in self.directions],
            "extra_tokens": list(self.extra.names),
            "longest_source": self.longest_source,
            "length_ratios": {name: list(both) for name, both in self.length_ratios.items()},
            "abbreviations": {name: list(learnt) for name, learnt in self.abbreviations.items()},
            "identifier": self.identifier and self.identifier.to_dict(),
            "tokenizer": self.tokenizer.text,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The facts that `to_dict` stored. Raises ValueError for any other values."""
        try:
            ratios = values["length_ratios"].items()
            learnt = values["abbreviations"].items()
            known = values["identifier"]
            return cls(
                Tokenizer(values["tokenizer"]),
                ExtraTokens(tuple(values["extra_tokens"])),
                [LanguagePair(*pair) for pair in values["directions"]],
                int(values["longest_source"]),
                {str(language): list(map(str, each)) for language, each in learnt},
                {str(name): LengthRatios(*map(float, both)) for name, both in ratios},
                None if known is None else Identifier.from_dict(known),
            )
        except (AttributeError, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"unknown facts ({type(error).__name__}: {error})") from error
