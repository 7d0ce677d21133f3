"""Tables as people and pyarrow write them."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from saccade import formats
from saccade.checks import FileError
from saccade.formats import table

GOOD = """\
sequence,step,kind,event,observation.x,observation.y,action.a
one,0,reach,come,0.1,1,5
one,1,reach,go,0.2,2,6
one,2,reach,,0.3,3,
two,0,point,go,1.1,1,7
two,1,point,go,1.2,2,8
two,2,point,come,1.3,3,9
two,3,point,,1.4,4,
"""


def test_a_table_written_by_hand_is_read(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    found = formats.read(tmp_path / "a.csv")
    assert found.lengths.tolist() == [2, 3]
    np.testing.assert_array_equal(found.observation[0, :3, 0], np.float32([0.1, 0.2, 0.3]))
    assert found.observation[1, :, 1].tolist() == [1, 2, 3, 4]
    assert found.action[1, :, 0].tolist() == [7, 8, 9]
    assert found.event_names == ("come", "go")
    assert found.event.tolist() == [[0, 1, -1], [1, 1, 0]]
    assert [found.kind_names[index] for index in found.kind] == ["reach", "point"]
    assert found.observation_names == ("x", "y")


def test_rows_may_come_in_any_order(tmp_path, same):
    header, *rows = GOOD.splitlines()
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("\n".join([header, rows[1], rows[6], *rows[2:6], rows[0]]))
    assert same(table.read_csv(tmp_path / "a.csv"), table.read_csv(tmp_path / "b.csv"), without=("origin",))


def test_a_last_action_that_nothing_followed_is_dropped(tmp_path):
    complete = "\n".join(f"{line}0" if line.endswith(",") else line for line in GOOD.splitlines())
    (tmp_path / "a.csv").write_text(complete)
    found = table.read_csv(tmp_path / "a.csv")
    assert found.lengths.tolist() == [2, 3]
    assert found.action[1, :, 0].tolist() == [7, 8, 9]


def test_columns_of_other_names_can_be_named(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD.replace("observation.", "").replace("action.", ""))
    found = table.read_csv(tmp_path / "a.csv", observation=["y", "x"], action=["a"])
    assert found.observation_names == ("y", "x")
    assert found.action_names == ("a",)
    assert found.observation[1, :, 0].tolist() == [1, 2, 3, 4]


def test_what_pyarrow_writes_is_read(tmp_path, example, same):
    whole = example()
    table.write_parquet(whole, tmp_path / "a.parquet")
    content = pq.read_table(tmp_path / "a.parquet")
    assert content.column("action.action_0").null_count == len(whole)
    lost = ("observation_units", "action_units", "context_units", "entities", "origin")
    plain = content.replace_schema_metadata(None)
    plain = plain.set_column(plain.schema.get_field_index("kind"), "kind", plain.column("kind").dictionary_encode())
    pq.write_table(plain, tmp_path / "b.parquet", row_group_size=7)
    assert same(whole, table.read_parquet(tmp_path / "b.parquet"), without=lost)
    pyarrow.csv.write_csv(content, tmp_path / "c.csv")
    assert same(whole, table.read_csv(tmp_path / "c.csv"), without=lost)


def test_numbered_events_keep_their_numbers_as_names(tmp_path):
    content = {"sequence": [0, 0, 0], "step": [0, 1, 2], "event": [3, 5, None], "observation.x": [1.0, 2.0, 3.0]}
    pq.write_table(pa.table(content), tmp_path / "a.parquet")
    found = table.read_parquet(tmp_path / "a.parquet")
    assert [found.event_names[index] for index in found.event[0]] == ["3", "5"]


def test_a_long_table_is_written_in_one_piece(tmp_path, example, same):
    whole = example(2500, 2, ragged=False, event=None, event_names=())
    table.write_csv(whole, tmp_path / "a.csv")
    assert same(whole, table.read_csv(tmp_path / "a.csv"), without=("observation_units", "entities", "origin"))


BROKEN = {
    "empty": ("", "no column 'sequence'"),
    "header alone": (GOOD.splitlines()[0], "no rows"),
    "no sequence": (GOOD.replace("sequence", "episode"), "no column 'sequence' but episode, step"),
    "no step": (GOOD.replace("step", "time"), "no column 'step'"),
    "no observation": (GOOD.replace("observation.", "seen_"), "observation=\\["),
    "two alike": (GOOD.replace("observation.y", "observation.x"), "same name"),
    "cells": (GOOD.replace("one,1,reach,go,0.2,2,6", "one,1,reach,go,0.2"), "5 cells in line 3: wanted 7"),
    "text": (GOOD.replace("0.2", "zero"), "column 'observation.x' has a cell that is no number"),
    "NaN": (GOOD.replace("0.2", "nan"), "observation holds NaN or infinite values, the first in sequence 0, step 1, x"),
    "infinite": (GOOD.replace("0.2", "inf"), "observation holds NaN"),
    "no value": (GOOD.replace("0.2", ""), "observation holds NaN"),
    "no action": (GOOD.replace("2,6", "2,"), "action holds NaN"),
    "step missing": (GOOD.replace("two,1,point,go,1.2,2,8\n", ""), "in sequence two step 2 follows 0"),
    "step twice": (GOOD.replace("two,1", "two,0"), "in sequence two step 0 follows 0"),
    "too short": (GOOD.replace("one,1,reach,go,0.2,2,6\none,2", "one,1"), "sequence one has 2 rows"),
    "cut short": (GOOD.replace("two,3,point,,1.4,4,\n", ""), "sequence two ends with an action in step 2"),
    "kind changes": (GOOD.replace("one,1,reach", "one,1,point"), "column 'kind' changes"),
    "kind of some": (GOOD.replace("reach", ""), "kind"),
    "not text": (GOOD.replace("reach", "r\0each\xff"), ""),
    "open quote": (GOOD.replace("one,0", '"one,0'), ""),
}


@pytest.mark.parametrize(("content", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_tables_are_named_in_one_line(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content, encoding="latin1")
    with pytest.raises(FileError, match=rf"a\.csv.*{message}") as caught:
        table.read_csv(tmp_path / "a.csv")
    assert "\n" not in str(caught.value)


def test_a_column_that_is_named_but_not_there_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    with pytest.raises(FileError, match="no column 'z': wanted one of sequence, step"):
        table.read_csv(tmp_path / "a.csv", observation=["z"])
