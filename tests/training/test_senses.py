from __future__ import annotations

from pathlib import Path

import pytest

from inference.errors import InputError
from training.senses import count_senses, write_table


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    folder = tmp_path / "wordnet"
    folder.mkdir()
    licence = "  1 This software and database is being provided to you  \n"
    (folder / "index.noun").write_text(licence + "bank n 10 5 @ ~ #m #p %p 10 4 1 2\nhot_dog n 3 1 @ 3 1 4 5 6\n")
    (folder / "index.verb").write_text(licence + "bank v 8 2 @ ~ 8 4 3 4\nbask v 1 1 @ 1 0 7\n")
    (folder / "index.adj").write_text(licence)
    (folder / "index.adv").write_text(licence)
    return folder


def test_senses_are_counted_over_all_parts_of_speech(wordnet: Path):
    assert count_senses(wordnet) == {"bank": 18, "bask": 1}


def test_the_table_holds_words_of_several_senses_in_order(wordnet: Path, tmp_path: Path):
    with (wordnet / "index.adj").open("a") as file:
        file.write("able a 4 2 ! = 4 3 1 2 3 4\n")
    assert write_table(count_senses(wordnet), tmp_path / "table.txt") == 2
    lines = (tmp_path / "table.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["able\t4", "bank\t18"]


def test_missing_and_malformed_index_files_are_named(wordnet: Path):
    (wordnet / "index.adv").write_text("  1 licence\nwell r many\n")
    with pytest.raises(InputError, match=r"index\.adv, line 2: field 3"):
        count_senses(wordnet)
    (wordnet / "index.adv").unlink()
    with pytest.raises(InputError, match=r"index\.adv: can't be read") as caught:
        count_senses(wordnet)
    assert "wordnet-base" in caught.value.hint
