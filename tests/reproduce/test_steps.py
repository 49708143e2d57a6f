from __future__ import annotations

import json

import pytest

from laplacianshot.reproduce.steps import Step, StepRecord, digest
from laplacianshot.training.errors import OutputInUse


def finished(folder, **inputs) -> Step:
    step = Step("cook", folder, inputs)
    step.begin()
    (folder / "soup").write_text("hot")
    step.finish("soup")
    return step


def test_a_step_is_done_for_the_inputs_it_was_done_with_and_no_others(tmp_path):
    finished(tmp_path / "cook", salt=1)
    assert Step("cook", tmp_path / "cook", {"salt": 1}).record.outputs == "soup"
    assert Step("cook", tmp_path / "cook", {"salt": 2}).record is None
    assert Step("cook", tmp_path / "bake", {"salt": 1}).record is None


def test_with_other_inputs_a_step_begins_in_an_empty_folder_and_says_what_changed(tmp_path):
    finished(tmp_path / "cook", salt=1, water=2)
    again = Step("cook", tmp_path / "cook", {"salt": 3, "water": 2})
    assert again.changed() == ("salt",)
    assert again.begin() is None
    assert sorted(path.name for path in again.folder.iterdir()) == ["begun.json"]
    assert StepRecord.read(again.folder) is None


def test_with_the_same_inputs_an_unfinished_step_goes_on_with_what_is_there(tmp_path):
    first = Step("cook", tmp_path / "cook", {"salt": 1})
    first.begin()
    (first.folder / "onions").write_text("cut")
    second = Step("cook", tmp_path / "cook", {"salt": 1})
    assert second.changed() == ()
    second.begin()
    assert (second.folder / "onions").read_text() == "cut"


def test_what_a_kill_leaves_of_the_beginning_or_of_the_emptying_of_a_folder_is_no_hindrance(tmp_path):
    folder = tmp_path / "cook"
    folder.mkdir()
    (folder / ".partial-abc.json").write_text('{"st')
    half = tmp_path / ".cook-discarded"
    half.mkdir()
    (half / "soup").write_text("cold")
    Step("cook", folder, {"salt": 1}).begin()
    assert sorted(path.name for path in folder.iterdir()) == ["begun.json"]
    assert not half.exists()


def test_work_that_cost_much_is_put_aside(tmp_path):
    finished(tmp_path / "cook", salt=1)
    again = Step("cook", tmp_path / "cook", {"salt": 2}, adopt="soup")
    aside = again.begin()
    assert (aside / "soup").read_text() == "hot"
    assert not (again.folder / "soup").exists()


def test_what_was_put_aside_is_taken_up_again_when_its_inputs_come_back(tmp_path):
    finished(tmp_path / "cook", salt=1)
    other = Step("cook", tmp_path / "cook", {"salt": 2}, adopt="soup")
    assert other.bring_back() is None
    other.begin()
    (other.folder / "soup").write_text("salty")
    back = Step("cook", tmp_path / "cook", {"salt": 1}, adopt="soup")
    assert back.bring_back() is not None
    assert back.record.outputs == "soup"
    assert (back.folder / "soup").read_text() == "hot"
    assert back.bring_back() is None
    # And the other one is aside now.
    assert Step("cook", tmp_path / "cook", {"salt": 2}, adopt="soup").bring_back() is not None
    assert (tmp_path / "cook" / "soup").read_text() == "salty"


def test_a_folder_with_files_of_others_is_refused_unless_they_can_be_gone_on_with(tmp_path):
    folder = tmp_path / "cook"
    folder.mkdir()
    (folder / "soup").write_text("theirs")
    with pytest.raises(OutputInUse, match="not of this command"):
        Step("cook", folder, {"salt": 1}).begin()
    assert Step("cook", folder, {"salt": 1}, adopt="soup").begin() is None
    assert (folder / "soup").read_text() == "theirs"


def test_the_time_of_a_step_is_that_of_all_its_attempts(tmp_path):
    first = Step("cook", tmp_path / "cook", {"salt": 1})
    first.begin()
    (first.folder / "clock.json").write_text(json.dumps({"seconds": 100.0}))
    second = Step("cook", tmp_path / "cook", {"salt": 1})
    second.begin()
    assert 100 <= second.finish("soup").seconds < 101
    second.at_least(500)
    assert 500 <= second.seconds < 501
    second.at_least(20)
    assert second.seconds >= 500


def test_the_order_of_inputs_does_not_matter_but_every_value_does():
    assert digest({"a": 1, "b": [2, 3]}) == digest({"b": [2, 3], "a": 1})
    assert digest({"a": 1, "b": [2, 3]}) != digest({"a": 1, "b": [3, 2]})


def test_a_record_that_is_none_is_not_taken_for_one(tmp_path):
    (tmp_path / "step.json").write_text("[]")
    with pytest.raises(OutputInUse, match="not the record of a step"):
        StepRecord.read(tmp_path)
