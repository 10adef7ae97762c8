"""The routes of the server, with a translator that writes in upper case."""

import base64
import hashlib
import json
import re
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

import pytest
from starlette.routing import Route

from tests.helpers.served import BOTH, MANY, Client, FakeTranslator, Named, served
from translate_ddp.apps.serving.app import create_app
from translate_ddp.apps.serving.batching import LimitsConfig
from translate_ddp.errors import UserError
from translate_ddp.modeling.search_options import SearchConfig
from translate_ddp.spans import Protection

FIELDS = {"source": "en", "target": "it"}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(FakeTranslator()) as found:
        yield found


FORM = "application/x-www-form-urlencoded"
PART = b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'


def posted(port: int, query: bytes, media_type: str, body: bytes) -> tuple[int, str]:
    """Status and answer of a request as it is, as curl sends it."""
    head = b"POST /translate?source=en&target=it%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    head += f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=600) as connection:
        connection.sendall(head % query + body)
        answer = connection.makefile("rb").read().decode()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


@pytest.mark.parametrize("text", ["Where\u2019s", "\u00e9\u65e5\U0001f600", "Gr\u00fc\u00dfe!"])
def test_bodies_and_queries_are_utf8(client: Client, text: str):
    raw, encoded = text.encode(), quote(text).encode()
    body = json.dumps({"q": text}, ensure_ascii=False).encode()
    for query, media_type, content in (
        (b"", FORM, b"q=" + raw),
        (b"", FORM, b"q=" + encoded),
        (b"", f"{FORM}; charset=UTF-8", b"q=" + raw),
        (b"", f"{FORM};charset=iso-8859-1", b"q=" + raw),  # forms define no charset
        (b"", "multipart/form-data; boundary=b", PART % (b"q", raw) + b"--b--\r\n"),
        (b"", "application/json; charset=iso-8859-1", body),
        (b"", "Application/JSON", b"\xef\xbb\xbf" + body),
        (b"&q=" + encoded, FORM, b""),
    ):
        status, answer = posted(client.port, query, media_type, content)
        assert (status, json.loads(answer)["translatedText"]) == (200, text.upper()), content


@pytest.mark.parametrize("text", [b"caf\xe9", b"caf%E9", b"\xff\xfea", b"\x93a\x94", b"%ED%A0%80"])
def test_bytes_that_are_not_utf8_are_rejected(client: Client, text: bytes):
    kinds = [(b"", FORM, b"q=" + text), (b"", f"{FORM}; charset=iso-8859-1", b"q=" + text)]
    kinds += [(b"", FORM, b"q=a&" + text + b"=b")]
    if b"%" in text:
        kinds += [(b"&q=" + text, FORM, b"")]
    else:
        part = PART % (b"q", text) + b"--b--\r\n"
        kinds += [(b"", "multipart/form-data; boundary=b", part)]
        kinds += [(b"", "application/json", b'{"q": "' + text + b'"}')]
    for query, media_type, body in kinds:
        status, answer = posted(client.port, query, media_type, body)
        assert status == 400 and "UTF-8" in json.loads(answer)["error"], body


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("q=A&q=B", "q"),
        ("q=A&q=A", "q"),
        ("q=A&q=", "q"),
        ("q=A&source=de", "source"),
        ("q=A&target=en", "target"),
        ("q=A&format=html&format=text", "format"),
        ('{"q": "A", "q": "B"}', "q"),
    ],
)
def test_field_with_several_values_is_rejected(client: Client, body: str, name: str):
    media_type = "application/json" if body[0] == "{" else FORM
    status, answer = posted(client.port, b"", media_type, body.encode())
    assert status == 400 and f"'{name}' has several values" in answer
    if body[0] != "{":  # some in the query
        query, _, rest = body.partition("&")
        assert posted(client.port, f"&{query}".encode(), FORM, rest.encode()) == (400, answer)


def test_field_may_be_repeated_with_the_same_value(client: Client):
    assert posted(client.port, b"", FORM, b"q=a&source=en&format=text&format=text")[0] == 200


def test_text_that_is_cut_at_an_ampersand_is_rejected(client: Client):
    status, answer = posted(client.port, b"", FORM, b"q=Tom & Jerry go home.")
    assert status == 400 and "Jerry go home." in answer
    assert client.post_form(q="Tom & Jerry", **FIELDS)[1] == {"translatedText": "TOM & JERRY"}


@pytest.mark.parametrize("media_type", [FORM, "text/plain", ""])
@pytest.mark.parametrize("body", ['{"q": "a"}', ' {"q": "a=b&c=d"}'])
def test_json_without_its_content_type_is_named(client: Client, media_type: str, body: str):
    status, answer = posted(client.port, b"", media_type, body.encode())
    assert status == 400 and answer.startswith('{"error":"Invalid request: missing q parameter')
    assert "Content-Type: application/json" in answer


@pytest.mark.parametrize("path", ["//translate", "/translate/", "//translate//"])
def test_slashes_around_a_route_are_ignored(client: Client, path: str):
    assert client.post(path, q="a", **FIELDS) == (200, {"translatedText": "A"})
    assert client.get(path.replace("translate", "frontend//settings"))[1]["charLimit"] == 5000
    assert client.get(path) == (405, {"error": "Method Not Allowed"})
    assert client.get(f"{path}x") == (404, {"error": "Not Found"})


def test_spec_names_the_routes_and_fields_of_the_server(client: Client):
    spec = client.get("/spec")[1]
    assert spec["info"]["title"] == "LibreTranslate"  # by which clients recognise the API
    model: Any = SimpleNamespace(translator=FakeTranslator(), check=lambda: None)
    app = create_app(model, LimitsConfig(), SearchConfig())
    routes = [route for route in app.routes if isinstance(route, Route) and route.path != "/"]
    assert {path: {*operations} for path, operations in spec["paths"].items()} == {
        route.path: {method.lower() for method in (route.methods or set()) - {"HEAD"}}
        for route in routes
    }
    for path, operations in spec["paths"].items():
        for method, operation in operations.items():
            status, answer = client.post(path) if method == "post" else client.get(path)
            assert str(status) in operation["responses"], path
            for field in operation.get("parameters", []):
                if field.get("required"):
                    assert "missing" in answer["error"]
    fields = spec["paths"]["/translate"]["post"]["parameters"]
    values = {"format": "html", "alternatives": "1", "scores": "true", "api_key": ""}
    values |= {"glossary": "a\tb"}
    values |= {"q": "a", **FIELDS}
    assert {field["name"] for field in fields} == values.keys()
    assert client.post_form(**values)[0] == 200


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/suggest", "Suggestions are disabled on this server."),
        ("/translate_file", "Files translation are disabled on this server."),
    ],
)
def test_what_is_not_offered_is_refused_with_its_reason(client: Client, path: str, reason: str):
    assert client.post_form(path, q="a", s="b", **FIELDS) == (403, {"error": reason})


def test_list_is_answered_by_lists(client: Client):
    answer = client.translate(["a", "b\nc"], source="auto", alternatives=1)
    assert answer == {
        "translatedText": ["A", "B\nC"],
        "alternatives": [["A AGAIN"], ["B AGAIN\nC AGAIN"]],
        "detectedLanguage": [{"confidence": 0.0, "language": "en"}] * 2,
    }


def test_source_auto_is_the_language_of_the_model(client: Client):
    answer = client.translate("a", source="auto")
    assert answer["detectedLanguage"] == {"confidence": 0.0, "language": "en"}
    assert "detectedLanguage" not in client.translate("a")
    assert client.post_form("/detect", q="a") == (200, [{"confidence": 0.0, "language": "en"}])
    assert client.post_form("/detect", q="x" * 5001)[0] == 400


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


def test_requests_may_be_of_html_and_have_a_glossary():
    translator = FakeTranslator()
    translator.protection = Protection(glossary={"moon": "luna", "sun": "sole"})
    with served(translator) as client:
        assert client.translate("<p>a\nb</p>", format="html")["translatedText"] == "<P>A\nB</P>"
        assert translator.settings == {"markup": "html", "protection": translator.protection}
        client.translate("a", glossary={"moon": "LUNA"})
        glossary = translator.settings["protection"].glossary
        assert glossary.terms == {"moon": "LUNA", "sun": "sole"}
        client.post_form(q="a", glossary="moon\tm\nx\ty", **FIELDS)
        assert translator.settings["protection"].glossary.terms["x"] == "y"
        for unusable in ("moon", ["a"], {"a": 1}, 5):
            status, answer = client.post(q="a", glossary=unusable, **FIELDS)
            assert status == 400 and "glossary: " in answer["error"]


def test_languages_are_those_of_the_model(client: Client):
    assert client.get("/languages")[1] == [
        {"code": "en", "name": "English", "targets": ["it"]},
        {"code": "it", "name": "Italian", "targets": []},
    ]
    assert client.get("/health") == (200, {"status": "ok"})
    settings = client.get("/frontend/settings")[1]
    assert settings["charLimit"] == 5000 and settings["language"]["target"]["code"] == "it"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": [1]}, "q is neither a text nor a list of texts."),
        ({"q": {"a": 1}}, "q is neither a text nor a list of texts."),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "\ud800"}, "? is not supported"),
        ({"target": "de"}, "de is not supported"),
        ({"source": "en" + "-abcde" * 9000}, f"en{'-abcde' * 5}-ab... is not supported"),
        ({"target": "x" * 36}, f"{'x' * 35}... is not supported"),
        ({"source": "x" * 35}, f"{'x' * 35} is not supported"),
        ({"target": "auto"}, "auto is not supported"),
        (
            {"source": "it", "target": "en"},
            "English (en) is not available as a target language from Italian (it)",
        ),
        (
            {"source": "auto", "target": "en"},
            "English (en) is not available as a target language from English (en)",
        ),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"format": ["text"]}, "['text'] format is not supported"),
        ({"format": "x" * 70_000}, f"{'x' * 50} format is not supported"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 1e999}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": [1]}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 4}, "Invalid request: alternatives parameter must be <= 3"),
        ({"q": "x" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        ({"q": ["a"] * 257}, "Invalid request: request (257) exceeds text limit (256)"),
    ],
)
def test_unusable_field_is_reported_in_the_words_of_libretranslate(
    client: Client, change: dict, reason: str
):
    assert client.post(**{"q": "a", **FIELDS} | change) == (400, {"error": reason})


@pytest.mark.parametrize("body", ["", "{", "[1]", "[" * 60_000, b"\xff", '{"q": 1e', "null"])
def test_body_that_is_no_json_object_is_reported(client: Client, body: str | bytes):
    headers = {"Content-Type": "application/json"}
    status, _, answer = client.send("POST", "/translate", body, **headers)
    assert status == 400 and "JSON" in json.loads(answer)["error"]


def test_characters_that_cannot_be_encoded_are_replaced(client: Client):
    assert client.translate("a\ud800")["translatedText"] == "A?"
    answer = client.translate("<i title='\ud800'>a</i>", format="html")
    assert answer["translatedText"] == "<I TITLE='?'>A</I>"


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


@pytest.fixture(scope="module")
def many() -> Iterator[Client]:
    with served(Named()) as found:
        yield found


def test_languages_have_the_targets_of_their_directions(many: Client):
    targets = {each["code"]: (each["name"], each["targets"]) for each in many.get("/languages")[1]}
    assert targets == {
        "en": ("English", ["ha", "lg"]),
        "ha": ("Hausa", ["en"]),
        "lg": ("Ganda", ["en"]),
    }
    assert many.get("/frontend/settings")[1]["detects"] is True


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        *(("en", "lg", "EN-LUG A"), ("en", "lug", "EN-LUG A"), ("en-GB", "ha", "EN-HAU A")),
        *(("lg", "en", "LUG-EN A"), ("hau", "en", "HAU-EN A")),
        ("ha", "lg", "Ganda (lg) is not available as a target language from Hausa (ha)"),
        ("en", "yo", "yo is not supported"),
    ],
)
def test_request_is_translated_in_its_direction(many: Client, source: str, target: str, text: str):
    status, answer = many.post(q="a", source=source, target=target)
    assert (status, *answer.values()) == (400 if " is not " in text else 200, text)


def test_source_of_each_text_of_a_list_is_detected(many: Client):
    texts = ["hhhh", "llll\nl", "2024", "hh"]
    answer = many.translate(texts, source="auto", target="en", alternatives=1)
    assert answer["translatedText"] == [
        *("HAU-EN HHHH", "LUG-EN LLLL\nLUG-EN L", "HAU-EN 2024", "HAU-EN HH")
    ]
    assert answer["alternatives"][1] == ["LUG-EN LLLL AGAIN\nLUG-EN L AGAIN"]
    found = answer["detectedLanguage"]
    assert [each["language"] for each in found] == ["ha", "lg", "ha", "ha"]
    assert found[2]["confidence"] == 0 < found[3]["confidence"] < found[0]["confidence"]
    for text, alone in zip(texts, answer["translatedText"], strict=True):
        assert many.translate(text, source="auto", target="en")["translatedText"] == alone


@pytest.mark.parametrize("q", ["hhhhh", ["eeee", "hhhhh"], ["hhhhh", "1", "eeee"]])
def test_detected_language_without_a_direction_is_rejected_as_its_code_is(many: Client, q: Any):
    answer = many.post(q=q, source="auto", target="lg")  # hau-lug does not exist
    reason = "Ganda (lg) is not available as a target language from Hausa (ha)"
    assert answer == many.post(q=q, source="ha", target="lg") == (400, {"error": reason})
    answer = many.translate("<b title='hhhh'>eee</b>", source="auto", target="lg", format="html")
    assert answer["detectedLanguage"]["language"] == "en"  # attributes do not count


def test_source_is_detected_among_those_of_the_target(many: Client):
    for letter, language in (("h", "ha"), ("l", "lg")):
        answer = many.translate([letter * 9, letter], source="auto", target="en")
        assert {each["language"] for each in answer["detectedLanguage"]} == {language}
        assert 50 < answer["detectedLanguage"][0]["confidence"] <= 100
    found = many.post("/detect", q="lll")[1]
    assert found[0]["language"] == "lg" and sum(each["confidence"] for each in found) > 99


def test_source_of_two_directions_is_the_other_language_of_the_target():
    with served(FakeTranslator(directions=BOTH)) as client:
        for target, language in (("it", "en"), ("en-US", "it")):
            answer = client.translate("a", source="auto", target=target)
            assert answer["detectedLanguage"] == {"confidence": 0.0, "language": language}


def test_source_of_a_model_that_cannot_detect_must_be_named():
    with served(FakeTranslator(directions=MANY)) as client:
        reason = {"error": "auto is not supported"}
        assert client.post(q="a", source="auto", target="en") == (400, reason)
        assert client.translate("a", source="auto", target="lg")["translatedText"] == "A"


def test_client_of_libretranslate_translates_detects_and_lists_languages(client: Client):
    library = pytest.importorskip("libretranslatepy")
    api = library.LibreTranslateAPI(f"http://127.0.0.1:{client.port}", api_key="any")
    assert api.translate("two\nmoons & \u00e9", "en", "it") == "TWO\nMOONS & \u00c9"
    assert api.translate("two", "auto", "it") == "TWO"
    assert api.detect("two moons") == [{"confidence": 0.0, "language": "en"}]
    assert [language["code"] for language in api.languages()] == ["en", "it"]
    with pytest.raises(HTTPError, match="400") as error:
        api.translate("two", "en", "es")
    error.value.close()
