"""`python -m translate_ddp serve`: a server with LibreTranslate's routes, and a page."""

import sys
from dataclasses import dataclass, field

from translate_ddp.apps.commands.saved_model import SavedModel
from translate_ddp.apps.serving.limits import LimitsConfig
from translate_ddp.console import print_line
from translate_ddp.extras import SERVER, check_server
from translate_ddp.settings import SearchConfig, Split, check_at_least, check_port

LIBRARIES = (*SERVER, "python_multipart")


@dataclass(frozen=True)
class ServeConfig:
    """Serve a trained model over HTTP, with a page for the browser."""

    saved: SavedModel = field(default_factory=SavedModel)
    search: SearchConfig = field(default_factory=SearchConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0: reachable from other machines."""
    port: int = 5000
    """Port to listen on; 0: any free one."""
    reload_seconds: float = 10.0
    """Seconds between looks for a newer model in the folder; 0: keep the first."""
    split: Split = "sentences"
    """sentences: translate the sentences of each line one by one; none: each line as one."""

    def __post_init__(self) -> None:
        check_at_least(0, self, "reload_seconds")
        check_port(self.port)


def run(config: ServeConfig) -> None:
    check_server("serve", LIBRARIES)
    from translate_ddp.apps.serving.app import create_app
    from translate_ddp.apps.serving.reload import ServedModel
    from translate_ddp.apps.serving.server import bind, is_loopback, make_server, run_server, url_of

    bound = bind(config.host, config.port)  # before the model is opened, which takes seconds
    model = ServedModel(config.saved.path, lambda: config.saved.open(split=config.split), report)
    url = url_of(bound)
    if not is_loopback(bound):
        report(
            f"warning: other machines can reach {url}. There is no password and no encryption: "
            "see docs/serve.md."
        )
    translator = model.translator
    languages = f"{translator.lang_src} to {translator.lang_tgt}"
    languages += " and back" * translator.is_bidirectional

    def announce() -> None:
        print_line(f"Serving {languages} on {url} (Ctrl-C ends it).")

    app = create_app(model, config.limits, config.search, config.reload_seconds)
    run_server(make_server(app, config.limits.max_seconds, announce), bound)


def report(message: str) -> None:
    print_line(message, sys.stderr)
