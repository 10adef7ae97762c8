"""The page in a headless Chromium: typing, answers, errors, and text that looks like HTML."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.helpers import browser
from tests.helpers.browser import Browser
from tests.helpers.processes import wait_until
from tests.helpers.served import BOTH, FakeTranslator, Named, served
from translate_ddp.decoding import Sentence
from translate_ddp.errors import UserError
from translate_ddp.translator import Translation

pytestmark = pytest.mark.skipif(browser.COMMAND is None, reason="Chromium is not installed")
DESKTOP, PHONE = (1280, 800), (390, 844)


@contextmanager
def shown(
    page: Browser, model: FakeTranslator | None = None, size: tuple[int, int] = DESKTOP, **how: Any
) -> Iterator[None]:
    """The page of a server with this model is open."""
    with served(model or FakeTranslator()) as client:
        page.log.clear()
        # The browser gives the focus some time after the page is loaded.
        ready = "settings && document.activeElement.id === 'source'"
        page.open(f"http://127.0.0.1:{client.port}/", *size, ready=ready, **how)
        yield
        page.open("about:blank", *size)  # no late request to a stopped server, which logs an error


def wait_for_output(page: Browser, text: str) -> None:
    page.wait_for(f"output.textContent === {text!r} && !document.body.matches('.outdated')")


def test_typing_shows_translation_alternatives_scores_and_uncertain_words(chromium: Browser):
    with shown(chromium):
        assert chromium.evaluate("document.title") == "English to Italian"
        chromium.type("two moons\nsun")
        wait_for_output(chromium, "TWO MOONS\nSUN")
        assert chromium.evaluate("getComputedStyle(output).whiteSpace") == "pre-wrap"
        marked = "[...output.querySelectorAll('mark')].map((m) => [m.textContent, m.className])"
        unsure = [["TWO", "unsure"], ["MOONS", "unsure"], ["SUN", "unsure"]]
        assert chromium.evaluate(marked) == unsure  # each has the probability 1/4
        items = chromium.evaluate("[...find('list').children].map((li) => li.innerText)")
        assert [item.split("\n")[0] for item in items] == [
            *("TWO MOONS AGAIN", "TWO MOONS AGAIN AGAIN", "TWO MOONS AGAIN AGAIN AGAIN")
        ]
        assert "\u2212" in items[0].split("\n")[-1]  # the score, with a minus sign
        assert "3 uncertain words" in chromium.evaluate("find('status').textContent")
        assert chromium.log == []


class Faulty(FakeTranslator):
    """The first translation is empty, the second repeats itself, the third is empty, too."""

    def _translation(self, text: str, rank: int) -> Translation:
        found, fault = (("", "empty"), ("ha ha ha ha", "repetition"))[rank % 2]
        return Translation(found, [Sentence(text, found, [found], [-1.0], (fault,))])


def test_warnings_are_shown_and_announced(chromium: Browser):
    with shown(chromium, Faulty()):
        chromium.type("two moons")
        wait_for_output(chromium, "")
        chromium.wait_for("!find('warning').hidden")
        message = chromium.evaluate("find('warning').textContent")
        assert "has no translation" in message
        assert chromium.evaluate("find('status').textContent") == message
        assert chromium.evaluate("getComputedStyle(output, '::before').content") == "none"
        items = chromium.evaluate("[...find('list').children].map((li) => li.innerText)")
        assert len(items) == 1 and "ha ha ha ha" in items[0] and "repeats itself" in items[0]
        assert chromium.log == []


def test_the_languages_are_swapped_where_the_model_has_both_directions(chromium: Browser):
    with shown(chromium, FakeTranslator(directions=BOTH)):
        chromium.type("two moons")
        wait_for_output(chromium, "TWO MOONS")
        chromium.evaluate("find('swap').click()")
        # The translation is the new source, and Italian its language.
        assert chromium.evaluate("[source.value, source.lang, output.lang]") == [
            *("TWO MOONS", "it", "en")
        ]
        wait_for_output(chromium, "TWO MOONS")
        assert chromium.evaluate("find('title').textContent") == "Italian to English"
        assert chromium.log == []
    with shown(chromium):
        chromium.wait_for("settings !== null")
        assert chromium.evaluate("find('swap').hidden") is True


def menu(name: str) -> str:
    return f"find({name!r}).hidden ? null : [...find({name!r}).options].map((o) => o.textContent)"


def choose(page: Browser, name: str, code: str) -> None:
    change = f"find({name!r}).dispatchEvent(new Event('change'))"
    page.evaluate(f"find({name!r}).value = {code!r}, {change}")


def test_menus_have_the_sources_and_the_targets_of_the_chosen_one(chromium: Browser):
    with shown(chromium, Named()):
        sources = ["Detected language", "English", "Hausa", "Ganda"]
        assert chromium.evaluate(menu("from")) == sources
        assert chromium.evaluate(menu("to")) == ["Hausa", "Ganda"]
        choose(chromium, "to", "lg")
        chromium.type("hh")
        wait_for_output(chromium, "EN-LUG HH")
        choose(chromium, "from", "ha")
        wait_for_output(chromium, "HAU-EN HH")
        assert chromium.evaluate(menu("to")) is None  # a single one
        assert chromium.evaluate("document.title") == "Hausa to English"
        choose(chromium, "from", "auto")
        chromium.type("h")
        wait_for_output(chromium, "HAU-EN HHH")
        chromium.wait_for("find('from').options[0].textContent === 'Detected: Hausa'")
        assert chromium.evaluate(menu("to")) == ["English", "Hausa", "Ganda"]
        assert chromium.evaluate("[find('swap').hidden, source.lang]") == [True, "ha"]
        assert chromium.log == []
    with shown(chromium):
        assert [chromium.evaluate(menu(name)) for name in ("from", "to")] == [None, None]


def test_swap_while_a_translation_is_pending_waits_for_it(chromium: Browser):
    translator = FakeTranslator(directions=BOTH)
    translator.may_go_on.clear()
    state = "[source.value, source.lang, output.textContent, output.lang]"
    with shown(chromium, translator):
        chromium.type("two moons")
        wait_until(lambda: translator.calls)
        chromium.evaluate("find('swap').click()")
        assert chromium.evaluate(state) == ["two moons", "en", "", "it"]
        seen = f"window.seen = [], setInterval(() => seen.push({state}.join()), 1), 0"
        chromium.evaluate(seen)
        translator.may_go_on.set()
        chromium.wait_for("source.lang === 'it'")
        wait_for_output(chromium, "TWO MOONS")
        assert chromium.evaluate(state) == ["TWO MOONS", "it", "TWO MOONS", "en"]
        assert set(chromium.evaluate("seen")) <= {
            *("two moons,en,,it", "two moons,en,TWO MOONS,it"),
            *("TWO MOONS,it,,en", "TWO MOONS,it,TWO MOONS,en"),
        }
        chromium.evaluate("find('swap').click()")  # typing takes it back
        wait_for_output(chromium, "TWO MOONS")
        translator.may_go_on.clear()
        chromium.type("!")
        chromium.evaluate("find('swap').click()")
        chromium.type("?")
        translator.may_go_on.set()
        wait_for_output(chromium, "TWO MOONS!?")
        assert chromium.evaluate("source.lang") == "en"
        assert chromium.log == []


def test_undo_brings_cleared_text_back_and_no_text_of_the_other_language(chromium: Browser):
    with shown(chromium, FakeTranslator(directions=BOTH)):
        chromium.type("two\nmoons")
        wait_for_output(chromium, "TWO\nMOONS")
        chromium.evaluate("find('clear').click()")
        assert chromium.evaluate("[source.value, output.textContent]") == ["", ""]
        chromium.undo()
        wait_for_output(chromium, "TWO\nMOONS")
        assert chromium.evaluate("source.value") == "two\nmoons"
        swapped = "find('swap').click(), [source.value, output.textContent, output.lang]"
        assert chromium.evaluate(swapped) == ["TWO\nMOONS", "", "en"]
        wait_for_output(chromium, "TWO\nMOONS")
        chromium.undo()
        assert chromium.evaluate("[source.value, source.lang]") == ["TWO\nMOONS", "it"]


def test_output_that_looks_like_html_stays_text(chromium: Browser):
    attack = "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\">"
    with shown(chromium, FakeTranslator(lambda text, rank: attack + "!" * rank)):
        chromium.type("a")
        wait_for_output(chromium, attack)
        assert attack + "!" in chromium.text()
        assert chromium.evaluate("document.querySelectorAll('script, img').length") == 1
        assert chromium.evaluate("document.title") == "English to Italian"
        assert chromium.log == []


def test_answer_to_an_outdated_text_is_not_shown(chromium: Browser):
    translator = FakeTranslator()
    translator.may_go_on.clear()
    with shown(chromium, translator):
        chromium.type("a")
        wait_until(lambda: translator.calls)
        chromium.evaluate("window.request = running, 0")
        chromium.evaluate(
            "window.seen = [], new MutationObserver(() => seen.push(output.textContent))"
            ".observe(output, { childList: true }) && 0"
        )
        chromium.type("b")
        translator.may_go_on.set()
        wait_for_output(chromium, "AB")
        assert chromium.evaluate("seen") == ["AB"]
        assert chromium.evaluate("request.signal.aborted")


def test_error_is_shown_until_the_next_translation(chromium: Browser):
    def fail(text: str, rank: int) -> str:
        if text == "ab":
            raise UserError("The model is unusable.")
        return text

    with shown(chromium, FakeTranslator(fail)):
        chromium.type("a")
        wait_for_output(chromium, "a")
        chromium.type("b")
        chromium.wait_for("!problem.hidden")
        assert "The model is unusable." in chromium.text()
        chromium.type("c")
        wait_for_output(chromium, "abc")
        assert chromium.evaluate("problem.hidden")


def test_translation_is_copied_with_the_keyboard(chromium: Browser):
    with shown(chromium):
        chromium.type("sun")
        wait_for_output(chromium, "SUN")
        chromium.press("\t")
        assert chromium.evaluate("document.activeElement.id") == "copy"
        chromium.press("\n")
        chromium.wait_for("['Copied', 'Selected'].includes(find('status').textContent)")


@pytest.mark.parametrize("size", [DESKTOP, PHONE, (320, 480)])
def test_page_is_never_wider_than_the_window(chromium: Browser, size: tuple[int, int]):
    with shown(chromium, size=size):
        word = "sun" * 100
        chromium.call("Input.insertText", text=word)
        wait_for_output(chromium, word.upper())
        assert chromium.evaluate("document.documentElement.scrollWidth <= innerWidth")
