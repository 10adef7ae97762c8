"""What a model gets to translate."""

from typing import Any

import pytest

from translate_ddp.translator import Translator


def record_sources(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """A list that receives the ids that the model translates from now on."""
    sent: list[list[int]] = []
    translate_ids = translator.engine.translate

    def record(sources: Any, *settings: Any, **more: Any) -> Any:
        sent.extend(map(list, sources))
        return translate_ids(sources, *settings, **more)

    monkeypatch.setattr(translator.engine, "translate", record)
    return sent
