from __future__ import annotations

import sqlite3
import threading

import pytest

from stores.sqlite import write_ahead


def test_connections_that_open_a_new_file_at_once_all_get_it(tmp_path):
    errors = []
    for number in range(60):
        start = threading.Barrier(8)

        def opened(path=tmp_path / f"{number}.sqlite", start=start):
            connection = sqlite3.connect(path, timeout=30)
            start.wait()
            try:
                write_ahead(connection)
                connection.execute("CREATE TABLE IF NOT EXISTS rows (n)")
            except sqlite3.Error as error:
                errors.append(error)
            connection.close()

        threads = [threading.Thread(target=opened) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_what_is_no_database_is_reported_at_once(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no database " * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        write_ahead(sqlite3.connect(path))
