"""The command `report`: which page it writes where, and its errors."""

from pathlib import Path

import pytest

from tests.helpers.records import write_run
from translate_ddp.apps.commands.command_line import parse
from translate_ddp.apps.commands.report import MAX_RUNS, ReportConfig, run
from translate_ddp.errors import UserError


def report(*words: str) -> None:
    run(parse(ReportConfig, words, "report"))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of two runs in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, epochs in (("one", 3), ("two", 2)):
        write_run(tmp_path / name, epochs)
    return ["one", "two"]


def test_the_page_of_a_run_is_written_into_its_folder(
    runs: list[str], capsys: pytest.CaptureFixture[str]
):
    report("one")
    assert capsys.readouterr().out == f"Wrote {Path('one', 'report.html')}.\n"
    html = Path("one", "report.html").read_text()
    assert html.startswith("<!doctype html>") and "Four geese cross the motorway." in html
    report("one")  # replaces it
    assert not Path("comparison.html").exists() and not Path("two", "report.html").exists()


def test_several_runs_are_compared_on_one_page(runs: list[str], capsys: pytest.CaptureFixture[str]):
    report("one", "two")
    assert capsys.readouterr().out == "Wrote comparison.html.\n"
    assert "Comparison of 2 runs" in Path("comparison.html").read_text()
    assert not Path("one", "report.html").exists()


def test_output_is_where_the_page_is_written(runs: list[str]):
    report("one", "--output", "x.html")
    report("one", "two", "--output", "y.html")
    assert "Comparison" not in Path("x.html").read_text()
    assert "Comparison" in Path("y.html").read_text()
    assert sorted(path.name for path in Path().iterdir()) == ["one", "two", "x.html", "y.html"]


@pytest.mark.parametrize("content", ["", "notes", "<!doctype html><title>mine</title>", "\0" * 9])
def test_a_file_that_is_no_page_of_ours_is_not_replaced(runs: list[str], content: str):
    for words in (["one", "--output", "comparison.html"], ["one", "two"]):
        Path("comparison.html").write_text(content)
        with pytest.raises(UserError, match="exists and is no page of translate_ddp"):
            report(*words)
        assert Path("comparison.html").read_text() == content


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "There is no folder nowhere"),
        (["one/metrics.jsonl"], "one/metrics.jsonl is a file: pass its folder, .*/one$"),
        (["."], r"\. holds no metrics.jsonl: pass the --model_folder"),
        (["one", "two", "--output", "one"], "--output one is a folder"),
        (["one", "--output", "no/x.html"], "There is no folder no"),
        (["one"] * (MAX_RUNS + 1), "1 to 8 folders, but was given 9"),
    ],
)
def test_bad_input_is_a_message_and_writes_nothing(runs: list[str], words: list[str], message: str):
    before = sorted(Path().rglob("*"))
    with pytest.raises(UserError, match=message):
        report(*words)
    assert sorted(Path().rglob("*")) == before
