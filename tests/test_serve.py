"""The routes of the server, with a translator that writes in upper case."""

# ruff: noqa: E402
import base64
import hashlib
import json
import re

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

from collections.abc import Iterator
from urllib.parse import urlencode

from tests.helpers.served import Client, FakeTranslator, served
from translate_ddp.errors import UserError

FIELDS = {"source": "en", "target": "it"}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(FakeTranslator()) as found:
        yield found


def test_json_and_forms_are_translated(client: Client):
    answer = (200, {"translatedText": "TWO MOONS"})
    assert client.post(q="two moons", **FIELDS) == answer
    assert client.post_form(q="two moons", **FIELDS) == answer
    assert client.post_form(q="two moons", format="text", api_key="", **FIELDS) == answer
    lines = []
    for name, value in {"q": "two moons", **FIELDS}.items():
        lines += ["--b", f'Content-Disposition: form-data; name="{name}"', "", value]
    body = "\r\n".join([*lines, "--b--", ""])
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    status, _, answered = client.send("POST", "/translate", body, **headers)
    assert (status, json.loads(answered)) == answer


def test_fields_may_be_in_the_query(client: Client):
    path = f"/translate?{urlencode({'q': 'two moons', **FIELDS})}"
    for body, headers in (("", {}), ("any", {"Content-Type": "text/plain"})):
        status, _, answered = client.send("POST", path, body, **headers)
        assert (status, json.loads(answered)) == (200, {"translatedText": "TWO MOONS"})


def test_list_is_answered_by_lists(client: Client):
    answer = client.translate(["a", "b\nc"], source="auto", alternatives=1)
    assert answer == {
        "translatedText": ["A", "B\nC"],
        "alternatives": [["A AGAIN"], ["B AGAIN\nC AGAIN"]],
        "detectedLanguage": [{"confidence": 0.0, "language": "en"}] * 2,
    }


def test_line_breaks_and_indentation_are_kept(client: Client):
    text = "\n  one\r\n\r\n two \n"
    assert client.translate(text)["translatedText"] == text.upper()
    assert client.translate(" \n ")["translatedText"] == " \n "


def test_source_auto_is_the_language_of_the_model(client: Client):
    answer = client.translate("a", source="auto")
    assert answer["detectedLanguage"] == {"confidence": 0.0, "language": "en"}
    assert "detectedLanguage" not in client.translate("a")
    assert client.post_form("/detect", q="a") == (200, [{"confidence": 0.0, "language": "en"}])


def test_alternatives_differ_from_the_translation_and_each_other():
    with served(FakeTranslator(lambda text, rank: text + "!" * (rank // 2))) as client:
        answer = client.translate("a", alternatives=3)
        assert answer == {"translatedText": "a", "alternatives": ["a!"]}
        assert "alternatives" not in client.translate("a", alternatives=0)
        assert client.post_form(q="a", alternatives="2", **FIELDS)[1]["alternatives"] == ["a!"]


def test_scores_have_the_probabilities_of_words(client: Client):
    best, second = client.translate("a b\nc", alternatives=1, scores=True)["translations"]
    assert best["text"] == "A B\nC" and second["text"] == "A B AGAIN\nC AGAIN"
    assert [(word["text"], round(word["probability"], 6)) for word in best["words"]] == [
        ("A ", 0.25),
        ("B", 0.25),
        ("\n", 1.0),
        ("C", 0.25),
    ]
    assert best["score"] == pytest.approx(-1.3862943611198906 * 3 / 5)  # two ends of a sentence


def test_html_keeps_its_tags(client: Client):
    answer = client.translate("<p>a &lt; <b>b</b></p>", format="html", alternatives=2)
    assert answer["translatedText"] == "<p>A &lt; <b>B</b></p>"


def test_languages_are_those_of_the_model(client: Client):
    assert client.get("/languages")[1] == [
        {"code": "en", "name": "English", "targets": ["it"]},
        {"code": "it", "name": "Italian", "targets": []},
    ]
    assert client.get("/health") == (200, {"status": "ok"})
    settings = client.get("/frontend/settings")[1]
    assert settings["charLimit"] == 5000 and settings["language"]["target"]["code"] == "it"


@pytest.mark.parametrize("pair", [("en-GB", "it_IT"), ("EN", "IT"), ("auto", "it")])
def test_regions_of_the_languages_are_ignored(client: Client, pair: tuple[str, str]):
    assert client.translate("a", source=pair[0], target=pair[1])["translatedText"] == "A"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"q": ""}, "q is missing"),
        ({"q": []}, "q is missing"),
        ({"q": [1]}, "q is missing"),
        ({"q": {"a": 1}}, "q is missing"),
        ({"source": None}, "source is missing"),
        ({"target": ""}, "target is missing"),
        ({"target": "de"}, "en (English) to it (Italian)"),
        ({"source": "it", "target": "en"}, "en (English) to it (Italian)"),
        ({"source": "\ud800"}, "is not available"),
        ({"format": "pdf"}, "must be text or html"),
        ({"format": ["text"]}, "must be text or html"),
        ({"alternatives": "many"}, "alternatives is not a number"),
        ({"alternatives": 1e999}, "alternatives is not a number"),
        ({"alternatives": [1]}, "alternatives is not a number"),
        ({"alternatives": 4}, "at most 3"),
    ],
)
def test_unusable_field_is_named(client: Client, change: dict, reason: str):
    status, answer = client.post(**{"q": "a", **FIELDS} | change)
    assert status == 400 and reason in answer["error"], answer


@pytest.mark.parametrize("body", ["", "{", "[1]", "[" * 60_000, b"\xff", '{"q": 1e', "null"])
def test_body_that_is_no_json_object_is_reported(client: Client, body: str | bytes):
    headers = {"Content-Type": "application/json"}
    status, _, answer = client.send("POST", "/translate", body, **headers)
    assert status == 400 and "JSON" in json.loads(answer)["error"]


def test_media_type_may_be_in_upper_case(client: Client):
    body = json.dumps({"q": "a", **FIELDS})
    status, _, answer = client.send(
        "POST", "/translate", body, **{"Content-Type": "Application/JSON; charset=UTF-8"}
    )
    assert status == 200 and json.loads(answer)["translatedText"] == "A"


def test_characters_that_cannot_be_encoded_are_replaced(client: Client):
    assert client.translate("a\ud800")["translatedText"] == "A?"
    answer = client.translate("<i title='\ud800'>a</i>", format="html")
    assert answer["translatedText"] == "<i title='?'>A</i>"


def test_other_routes_and_methods_are_answered_in_json(client: Client):
    assert client.get("/nowhere") == (404, {"error": "Not Found"})
    assert client.get("/translate") == (405, {"error": "Method Not Allowed"})


def test_pages_of_other_origins_may_translate(client: Client):
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    asked |= {"Access-Control-Request-Headers": "content-type"}
    status, headers, _ = client.send("OPTIONS", "/translate", **asked)
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "*"
    _, headers, _ = client.send("GET", "/languages", Origin="https://a.example")
    assert headers["Access-Control-Allow-Origin"] == "*"


def test_errors_of_the_model_are_answered_and_the_next_request_works():
    def fail(text: str, rank: int) -> str:
        if "nan" in text:
            raise UserError("The model's scores are not numbers.")
        return text

    with served(FakeTranslator(fail)) as client:
        status, answer = client.post(q="nan", **FIELDS)
        assert (status, answer) == (500, {"error": "The model's scores are not numbers."})
        assert client.translate("a")["translatedText"] == "a"


def test_page_is_self_contained_and_runs_only_its_own_script(client: Client):
    status, headers, body = client.send("GET", "/")
    page = body.decode()
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://|//\w+\.|@import|url\(|innerHTML|\bon\w+=| style=", page)
