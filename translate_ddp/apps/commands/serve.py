"""`translate-ddp serve`: a server with LibreTranslate's routes, and a page."""

import sys
from dataclasses import dataclass, field
from functools import cache

from translate_ddp.apps.commands.model_commands import (
    EngineConfig,
    ProtectionConfig,
    SavedModel,
    in_words,
)
from translate_ddp.apps.serving.batching import LimitsConfig
from translate_ddp.console import print_line
from translate_ddp.errors import UserError, cleanup, import_optional
from translate_ddp.modeling.search_options import SearchConfig
from translate_ddp.settings import Checked, Split, at_least, between, setting
from translate_ddp.translator import Translator

LIBRARIES = ("starlette", "uvicorn", "python_multipart")


@dataclass(frozen=True)
class ServeConfig(Checked):
    """Serve a trained model over HTTP, with a page for the browser."""

    saved: SavedModel = field(default_factory=SavedModel)
    engine: EngineConfig = field(default_factory=EngineConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0: reachable from other machines."""
    port: int = setting(5000, check=between(0, 2**16 - 1))
    """Port to listen on; 0: any free one."""
    reload_seconds: float = setting(10.0, check=at_least(0))
    """Seconds between looks for a newer model in the folder; 0: keep the first model."""
    split: Split = "sentences"
    """sentences: translate the sentences of each line one by one; none: each line as one."""
    protection: ProtectionConfig = field(default_factory=ProtectionConfig)


def run(config: ServeConfig) -> None:
    for library in LIBRARIES:
        import_optional(library, "requirements-serve.txt")
    from translate_ddp.apps.serving.app import create_app
    from translate_ddp.apps.serving.server import (
        ServedModel,
        is_loopback,
        listen,
        make_server,
        run_server,
        url_of,
    )

    bound = listen(config.host, config.port)  # before the model is opened, which takes seconds

    create_protection = cache(config.protection.create)  # a pipe is read once

    def open_model() -> Translator:
        with cleanup:  # deletes the files of a converted model, which is in memory
            model = config.saved.open(config.split, config.engine)
            if config.protection.glossary and model.facts.has_several:
                raise UserError("--glossary is for models of one direction: send it with requests.")
            model.protection = create_protection(model.directions[0])
            return model

    model = ServedModel(config.saved.path, open_model, report)
    url = url_of(bound)
    if not is_loopback(bound):
        report(
            f"warning: other machines can reach {url}. There is no password and no encryption: "
            "see docs/serve.md."
        )
    languages = in_words(model.translator.directions)
    app = create_app(model, config.limits, config.search, config.reload_seconds)
    message = f"Serving {languages} on {url} (Ctrl-C ends it)."
    run_server(make_server(app, config.limits.max_seconds), bound, message)


def report(message: str) -> None:
    print_line(message, sys.stderr)
