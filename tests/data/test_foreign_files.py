"""Files in the model folder that are not of a run: they are kept."""

from pathlib import Path

import pytest

from tests.helpers.corpora import write, write_parallel
from translate_ddp.data.cleaned_corpus import delete_cleaned
from translate_ddp.errors import UserError
from translate_ddp.runtime.run_folder import RunFolder


def test_folder_that_is_named_like_a_cleaned_corpus_is_kept(tmp_path: Path):
    write_parallel(tmp_path / "cleaned-v2" / "train", [("a", "b")])
    delete_cleaned(tmp_path)
    assert (tmp_path / "cleaned-v2" / "train.en").exists()


@pytest.mark.parametrize("name", ["config.yaml", "validation.json", "STATUS.json", "report.html"])
def test_folder_with_a_file_that_a_run_would_replace_is_rejected(tmp_path: Path, name: str):
    write(tmp_path / name, "mine")
    message = f"is not the folder of a run, but holds {name}, and .* pass another --model_folder"
    with pytest.raises(UserError, match=message):
        RunFolder(str(tmp_path), "token").lock(0)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "events.jsonl", "tmodel.pt"])
def test_folder_of_a_run_or_a_copy_of_it_is_accepted(tmp_path: Path, name: str):
    write(tmp_path / "config.yaml", "of the run")
    write(tmp_path / name, "")
    assert RunFolder(str(tmp_path), "token").lock(0) == 0
