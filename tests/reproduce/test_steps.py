from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, Setting, Tuning
from laplacianshot.reproduce.steps import Part, Step, StepRecord, digest
from laplacianshot.training.state import TrainError


def finished(folder, **inputs) -> Step:
    step = Step(folder, inputs)
    step.begin()
    (folder / "soup").write_text("hot")
    step.finish("soup")
    return step


def test_a_step_is_done_for_the_inputs_it_was_done_with_and_no_others(tmp_path):
    finished(tmp_path / "cook", salt=1)
    assert Step(tmp_path / "cook", {"salt": 1}).record.outputs == "soup"
    assert Step(tmp_path / "cook", {"salt": 2}).record is None
    assert Step(tmp_path / "bake", {"salt": 1}).record is None


def test_with_other_inputs_a_step_begins_in_an_empty_folder_and_says_what_changed(tmp_path):
    finished(tmp_path / "cook", salt=1, water=2)
    again = Step(tmp_path / "cook", {"salt": 3, "water": 2})
    assert "as salt changed" in again.begin()
    assert sorted(path.name for path in again.folder.iterdir()) == ["begun.json"]
    assert StepRecord.read(again.folder) is None


def test_with_the_same_inputs_an_unfinished_step_goes_on_with_what_is_there(tmp_path):
    first = Step(tmp_path / "cook", {"salt": 1})
    first.begin()
    (first.folder / "onions").write_text("cut")
    second = Step(tmp_path / "cook", {"salt": 1})
    assert second.begin() == ""
    assert (second.folder / "onions").read_text() == "cut"


def test_what_a_kill_leaves_of_the_beginning_of_a_folder_is_no_hindrance(tmp_path):
    folder = tmp_path / "cook"
    folder.mkdir()
    (folder / ".partial-abc.json").write_text('{"st')
    Step(folder, {"salt": 1}).begin()
    assert sorted(path.name for path in folder.iterdir()) == ["begun.json"]


def test_what_was_made_from_other_inputs_is_put_aside(tmp_path):
    finished(tmp_path / "cook", salt=1)
    again = Step(tmp_path / "cook", {"salt": 2})
    said = again.begin()
    (aside,) = tmp_path.glob("cook-*")
    assert said.endswith(f"kept in {aside.name}.")
    assert (aside / "soup").read_text() == "hot"
    assert not (again.folder / "soup").exists()


def test_what_was_put_aside_is_taken_up_again_when_its_inputs_come_back(tmp_path):
    finished(tmp_path / "cook", salt=1)
    other = Step(tmp_path / "cook", {"salt": 2})
    other.begin()
    (other.folder / "soup").write_text("salty")
    back = Step(tmp_path / "cook", {"salt": 1})
    assert "is continued" in back.begin()
    assert back.record.outputs == "soup"
    assert (back.folder / "soup").read_text() == "hot"
    assert back.begin() == ""
    # And the other one is aside now.
    assert "is continued" in Step(tmp_path / "cook", {"salt": 2}).begin()
    assert (tmp_path / "cook" / "soup").read_text() == "salty"


def test_nothing_is_overwritten_where_the_same_inputs_are_aside_already(tmp_path):
    finished(tmp_path / "cook", salt=1)
    Step(tmp_path / "cook", {"salt": 2}).begin()
    shutil.rmtree(tmp_path / "cook")
    (tmp_path / "cook").mkdir()
    (tmp_path / "cook" / "soup").write_text("theirs")
    Step(tmp_path / "cook", {"salt": 1}, adopt="soup").begin()
    Step(tmp_path / "cook", {"salt": 3}).begin()
    assert sorted(path.read_text() for path in tmp_path.glob("cook-*/soup")) == ["hot", "theirs"]


def test_a_folder_with_files_of_others_is_refused_unless_they_can_be_gone_on_with(tmp_path):
    folder = tmp_path / "cook"
    folder.mkdir()
    (folder / "soup").write_text("theirs")
    with pytest.raises(TrainError, match="not of this command"):
        Step(folder, {"salt": 1}).begin()
    assert Step(folder, {"salt": 1}, adopt="soup").begin() == ""
    assert (folder / "soup").read_text() == "theirs"


def test_the_time_of_a_step_is_that_of_all_its_attempts(tmp_path):
    first = Step(tmp_path / "cook", {"salt": 1})
    first.begin()
    (first.folder / "clock.json").write_text(json.dumps({"seconds": 100.0}))
    second = Step(tmp_path / "cook", {"salt": 1})
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
    with pytest.raises(TrainError, match="not the record of a step"):
        StepRecord.read(tmp_path)


def test_results_come_back_from_a_part(tmp_path):
    rng = np.random.default_rng(0)
    one = Evaluation("a", Setting(tasks=3), rng.random(3), rng.random(2), ("x", "y"), np.arange(3), 1.5)
    two = Evaluation("b", Setting(tasks=3, shot=(1, 5)), rng.random(3), seconds=2.5)
    trace = Convergence("a", Setting(), rng.random((2, 4)), np.array([True, False]))
    part = Part({"features": {"file": "birds"}})
    part.add("evaluations", [Evaluations((one, two))]).add("convergence", (trace,)).save(tmp_path / "part.npz")
    back = Part.load(tmp_path / "part.npz")
    assert back.plain["features"] == {"file": "birds"}
    ((first, second),) = back.get("evaluations", Evaluation)
    for found, made in ((first, one), (second, two), *zip(back.get("convergence", Convergence), (trace,), strict=True)):
        np.testing.assert_equal(vars(found), vars(made))
    assert back.hash() == part.hash()


def test_the_hash_of_a_part_leaves_out_times_and_nothing_else():
    def part(accuracy: float = 0.5, seconds: float = 1.0, name: str = "a") -> str:
        one = Evaluation(name, Setting(tasks=1), np.array([accuracy]), seconds=seconds)
        return Part().add("evaluations", [[one]]).hash()

    assert part() == part(seconds=7.0)
    assert len({part(), part(accuracy=0.25), part(name="b")}) == 3


def test_parts_of_earlier_versions_are_read(tmp_path):
    setting = {"protocol": "balanced", "way": 5, "shot": 1, "query": 15, "tasks": 2, "seed": 0}
    entry = {"at": "evaluations-0-0", "method": "a", "setting": setting, "class_names": ["x"], "seconds": 1.0}
    arrays = {"evaluations-0-0-accuracies": np.array([0.5, 1.0]), "evaluations-0-0-classes": np.array([0.75])}
    np.savez(tmp_path / "tasks.npz", plain=np.array(json.dumps({"evaluations": [[entry]]})), **arrays)
    ((found,),) = Part.load(tmp_path / "tasks.npz").get("evaluations", Evaluation)
    assert (found.mean, found.mean_class_accuracy, found.class_names) == (0.75, 0.75, ("x",))

    plain = {"method": "a", "lam": 0.5, "n_neighbors": 3, "setting": setting, "lam_split": "val"}
    plain |= {"neighbor_split": "base", "seconds": 1.0, "test_split": None, "test": None}
    curves = {"lam_accuracies": np.ones((1, 2)), "neighbor_accuracies": np.ones((1, 1, 2))}
    np.savez(
        tmp_path / "a.npz", plain=np.array(json.dumps(plain)), lams=np.array([0.5]), neighbors=np.array([3]), **curves
    )
    tuning = Part.load(tmp_path / "a.npz").get("", Tuning)
    assert (tuning.lam, tuning.neighbors.tolist(), tuning.setting) == (0.5, [3], Setting(**setting))
