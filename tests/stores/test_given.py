"""Passages given with a question: kept by content, found by id."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from inference.errors import StoreError
from stores.given import PREFIX, get_given, put_given
from stores.passages import Passage


def passage(title: str, text: str, *sentences: str) -> Passage:
    return Passage(id="", title=title, text=text, sentences=sentences)


def test_passages_come_back_as_they_were_given(home):
    rows = [passage("AT&T", 'A <b>"text"</b> é🙂.\nTwo.', "One.", "Two."), passage("", "x", "x")]
    ids = put_given(rows)
    assert all(key.startswith(PREFIX) for key in ids)
    for row, key, found in zip(rows, ids, get_given(ids), strict=True):
        assert (found.id, found.title, found.text, found.sentences) == (key, row.title, row.text, row.sentences)


def test_sentences_are_filled_in_where_there_are_none(home):
    ids = put_given([passage("X", "Ann lives in Paris. She paints."), passage("Y", "Own. Cut.", "Own. Cut.")])
    first, second = get_given(ids)
    assert first.sentences == ("Ann lives in Paris.", "She paints.")
    assert second.sentences == ("Own. Cut.",)


def test_the_id_depends_on_the_content_alone(home):
    one, same, other_title, other_text, other_cut = put_given(
        [passage("T", "A b.", "A b."), passage("T", "A b.", "A b."), passage("U", "A b.", "A b."),
         passage("T", "A c.", "A b."), passage("T", "A b.", "A", "b.")]
    )  # fmt: skip
    assert one == same
    assert len({one, other_title, other_text, other_cut}) == 4
    assert put_given([passage("T", "A b.", "A b.")]) == [one]


def test_the_order_asked_for_is_kept(home):
    ids = put_given([passage("", str(n), str(n)) for n in range(5)])
    assert [row.text for row in get_given([ids[3], ids[0], ids[3]])] == ["3", "0", "3"]
    assert get_given([]) == []


def test_a_passage_that_is_gone_is_named(home):
    (known,) = put_given([passage("T", "x", "x")])
    with pytest.raises(StoreError, match="given passage given-0000 is not in") as caught:
        get_given([known, "given-0000"])
    assert "again with its passages" in caught.value.hint


def test_a_damaged_file_is_a_clear_error(home):
    home.mkdir()
    (home / "given.sqlite").write_bytes(b"no database" * 1000)
    for use in (lambda: put_given([passage("T", "x", "x")]), lambda: get_given(["given-0"])):
        with pytest.raises(StoreError, match=r"given passages in .*given\.sqlite: file is not a database") as caught:
            use()
        assert "move the file away" in caught.value.hint


def test_a_home_that_is_a_file_is_a_clear_error(home):
    home.write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="given passages in"):
        put_given([passage("T", "x", "x")])


def test_threads_may_put_and_get_together(home):
    errors = []

    def work(who: int) -> None:
        try:
            for n in range(10):
                ids = put_given([passage(str(who), f"{who} {n}", "s"), passage("shared", str(n), "s")])
                assert [row.text for row in get_given(ids)] == [f"{who} {n}", str(n)]
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with sqlite3.connect(home / "given.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM given").fetchone() == (50,)
