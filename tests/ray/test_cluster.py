"""The engine on a cluster of three nodes that is started here; nodes, workers and drivers are killed for real.

All tests that need the cluster are in this file, so that it is started once by whichever process runs them.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from laplacianshot import FeatureSet, LaplacianShot, evaluate, label_source
from laplacianshot.cli.app import run
from laplacianshot.estimator import fit_large
from laplacianshot.ray import RayEngine
from laplacianshot.ray.cluster import _answers
from laplacianshot.ray.fit import ray_fit

pytest.importorskip("ray", reason="needs the extra ray")
psutil = pytest.importorskip("psutil", reason="finds the workers to kill")

SHARDS = 2
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}
# A killed node is missed after two seconds; one that is slow has twenty.
SYSTEM = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 20000,
    "health_check_failure_threshold": 2,
    # On a busy machine workers that give way to all others would never end.
    "worker_niceness": 0,
}


class ThreeNodes:
    """One head and two more nodes of one CPU each; a lost one is replaced."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        head = {**NODE, "include_dashboard": False, "_system_config": SYSTEM}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self._cluster.address
        self._others = [self._joined() for _ in range(2)]
        self.lost = 0

    def lose_one(self):
        """Kill a node's processes and let another node join."""
        self._cluster.remove_node(self._others.pop(0), allow_graceful=False)
        self._others.append(self._joined())
        self.lost += 1

    def _joined(self):
        """A new node; on a very busy machine one may miss its own deadline."""
        for _ in range(3):
            try:
                return self._cluster.add_node(**NODE)
            except Exception as error:
                fault = error
        raise fault

    def worker_processes(self, name):
        """Processes of actors or tasks of this name that run on these nodes."""
        raylets = [
            info.process.pid
            for node in [self._cluster.head_node, *self._others]
            for info in node.all_processes.get("raylet", [])
        ]
        children = [child for pid in raylets for child in psutil.Process(pid).children()]
        return [child for child in children if any(name in word for word in child.cmdline())]

    def shutdown(self):
        self._cluster.shutdown()


# Seconds that a test may take on a very busy machine.
MOST_SECONDS = 400


@pytest.fixture(autouse=True)
def bounded():
    """No test waits for ever, whatever it waits for."""

    def stop(*_):
        raise TimeoutError(f"not done after {MOST_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(MOST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def nodes():
    import ray
    from filelock import FileLock

    # One cluster at a time on this machine, where several processes share the tests of this file.
    with FileLock(Path(tempfile.gettempdir()) / "laplacianshot-ray-tests.lock", timeout=600):
        cluster = None
        try:
            cluster = ThreeNodes()
            ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
            yield cluster
        finally:
            ray.shutdown()
            if cluster is not None:
                cluster.shutdown()


@pytest.fixture(scope="module")
def task(tmp_path_factory, vectors):
    """Digits in a file, codes with five labels a digit, and what the engine of one machine finds."""
    pixels, _, y = vectors
    path = tmp_path_factory.mktemp("set") / "rows.npy"
    np.save(path, pixels)
    return path, pixels, y, LaplacianShot().fit(pixels, y)


class Stages:
    """Watches a run, and does something in the middle of a stage: ``Stages(Updates=[(11, action)])``."""

    def __init__(self, **actions):
        self.seen = {}
        self._actions = actions

    def __call__(self, stage):
        self.seen[stage] = []

        def count(done, total):
            self.seen[stage].append((done, total))
            waiting = self._actions.get(stage, [])
            if waiting and waiting[0][0] <= done < total:
                waiting.pop(0)[1]()

        return count


def assert_same(fit, local):
    np.testing.assert_array_equal(fit.codes(), local.transduction_)
    apart = np.abs(fit.distributions() - local.label_distributions_).max(axis=1)
    # Edges that are equally long but for rounding count as one here and as two there: a few rows have another reach.
    assert np.mean(apart > 1e-4) < 0.06
    assert apart.max() < 0.01
    # The last change is near the tolerance: a round more or less.
    rounds = min(len(fit.objective), len(local.objective_))
    assert max(len(fit.objective), len(local.objective_)) <= rounds + 1
    np.testing.assert_allclose(fit.objective[:rounds], local.objective_[:rounds], rtol=1e-5)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder for finished stages of the digits in two shards."""
    return str(tmp_path_factory.mktemp("kept"))


def test_labels_are_those_of_the_local_engine_and_stages_are_taken_up_again(nodes, task, kept, tmp_path):
    path, pixels, y, local = task
    stages = Stages()
    where = {"folder": kept, "shards": SHARDS}
    fit = ray_fit(path, y, **where, watch=stages, output=str(tmp_path / "out"))
    assert_same(fit, local)
    assert fit.graph.recall == 1
    assert list(stages.seen) == ["Reading", "Neighbors", "Graph", "Updates", "Labels"]
    assert all(counts[-1][0] > 0 for counts in stages.seen.values())

    import pyarrow.parquet as pq

    assert len(list((tmp_path / "out").glob("labels-*.parquet"))) == SHARDS
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["row"] for row in rows] == list(range(len(pixels)))
    np.testing.assert_array_equal([row["label"] for row in rows], local.transduction_)
    assert [row["origin"] for row in rows] == ["given" if given else "predicted" for given in y >= 0]

    assert {"survey", "search_shard", "build_graph", "step"} <= set(fit.usage)
    # Nodes have one CPU each.
    assert len(set().union(*(usage.workers for usage in fit.usage.values()))) >= 2

    again = ray_fit(path, y, **where)
    assert_same(again, local)
    assert set(again.usage) == {"survey", "given_rows"}


def test_a_table_gets_columns_of_one_scale(nodes, tmp_path):
    X, wines = load_wine(return_X_y=True)
    # One row far out, which counts in no mean.
    X[100] *= 1e4
    y = np.where(np.arange(len(X)) % 12 == 0, wines, -1)
    np.save(tmp_path / "wine.npy", X)
    local = LaplacianShot().fit(X, y)
    fit = ray_fit(tmp_path / "wine.npy", y, folder=str(tmp_path / "run"), shards=SHARDS)
    assert (fit.job.transform, local.transform_) == ("standard", "standard")
    np.testing.assert_allclose(fit.job.center, local.center_)
    np.testing.assert_allclose(fit.job.scale, local.solution_.scale)
    assert_same(fit, local)
    model = fit_large(LaplacianShot(), X, y, engine=RayEngine(run_folder=str(tmp_path / "run")).fit)
    assert model.transform_ == "standard"
    np.testing.assert_array_equal(model.transduction_, local.transduction_)
    np.testing.assert_array_equal(model.predict(X), local.predict(X))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_without_negative_entries_take_their_roots(nodes, vectors, tmp_path, dtype):
    pixels, _, y = vectors
    X = np.maximum(pixels + np.random.default_rng(0).random(pixels.shape), 0).astype(dtype)
    np.save(tmp_path / "rows.npy", X)
    local = LaplacianShot().fit(X, y)
    fit = ray_fit(tmp_path / "rows.npy", y, folder=str(tmp_path / "run"), shards=SHARDS)
    assert (fit.job.transform, local.transform_) == ("power", "power")
    np.testing.assert_allclose(fit.job.center, local.center_, rtol=1e-5)
    assert_same(fit, local)
    model = fit_large(LaplacianShot(), X, y, engine=RayEngine(run_folder=str(tmp_path / "run")).fit)
    assert model.transform_ == "power"
    np.testing.assert_array_equal(model.predict(X), local.predict(X))


@pytest.mark.parametrize("what", ["names", "names and labels", "prior", "shares"])
def test_what_is_known_besides_labels_counts_as_on_one_machine(nodes, vectors, tmp_path, what):
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((6, 24))
    truth = rng.integers(0, 6, 900)
    X = (centers[truth] + 1.2 * rng.standard_normal((900, 24))).astype(np.float32)
    y = np.full(900, -1)
    known: dict[str, object] = {}
    if what.startswith("names"):
        known = {"names": centers + 0.5 * rng.standard_normal(centers.shape), "classes": np.arange(6)}
    if what == "prior":
        said = np.where(rng.random(900) < 0.4, rng.integers(0, 6, 900), truth)
        prior = 0.05 + 0.7 * np.eye(6)[said]
        prior[::3] = np.nan
        known = {"prior": prior, "classes": np.arange(6)}
    if what in ("names and labels", "shares"):
        y[:36] = truth[:36]
    shares = np.bincount(truth) / 900 if what == "shares" else None
    local = LaplacianShot(class_shares=shares).fit(X, y, **known)
    engine = RayEngine(run_folder=str(tmp_path / "run"), shards=SHARDS)
    there = LaplacianShot(class_shares=shares)
    fit_large(there, X, y, engine=engine.fit, **known)
    np.testing.assert_array_equal(there.transduction_, local.transduction_)
    np.testing.assert_allclose(there.label_distributions_, local.label_distributions_, atol=1e-2)
    # In float32 the last rounds, which change next to nothing, may be more or fewer.
    np.testing.assert_allclose(there.objective_[:8], local.objective_[:8], rtol=1e-4)
    np.testing.assert_allclose(there.objective_[-1], local.objective_[-1], rtol=1e-4)
    assert there.report_ == local.report_
    np.testing.assert_array_equal(there.predict(X), local.predict(X))


def test_prototypes_are_held_where_classes_fall_together(nodes, task, tmp_path, monkeypatch):
    path, pixels, y, free = task
    monkeypatch.setattr("laplacianshot.inference.clues._COLLAPSE", -10.0)
    local = LaplacianShot().fit(pixels, y)
    assert local.solution_.answers.prototypes_held
    assert not np.array_equal(local.transduction_, free.transduction_)
    where = {"folder": str(tmp_path / "run"), "shards": SHARDS}
    fit = ray_fit(path, y, **where)
    assert fit.prototypes_held
    assert_same(fit, local)
    assert ray_fit(path, y, **where).prototypes_held


@pytest.mark.slow
def test_nodes_lost_in_every_stage_and_killed_workers_change_no_label(nodes, task, tmp_path):
    path, _, y, local = task
    killed = []

    def kill():
        for process in nodes.worker_processes("ray::Host"):
            killed.append(process.pid)
            process.send_signal(signal.SIGKILL)

    names = ("Reading", "Order", "Neighbors", "Graph", "Updates", "Labels")
    # In the updates after the first saved round, and once more a little later.
    actions = {name: [(11 if name == "Updates" else 1, nodes.lose_one)] for name in names}
    actions["Updates"].append((15, kill))
    before = nodes.lost
    fit = ray_fit(
        path,
        y,
        folder=str(tmp_path / "run"),
        order=True,
        shards=4,
        watch=Stages(**actions),
        output=str(tmp_path / "out"),
    )
    assert nodes.lost - before == len(names)
    assert killed
    assert fit.recoveries >= 2
    assert_same(fit, local)
    assert len(list((tmp_path / "out").glob("labels-*.parquet"))) == 4


# A driver one of whose shards never ends: what is killed then has finished some of a stage, and not all of it.
DRIVER = """
import importlib, sys, time
import numpy as np
from laplacianshot.ray import ray_fit

path, codes, folder, address, shards, place, output = sys.argv[1:]
module, _, name = place.rpartition(".")

def last_never_ends(shard_or_job, *arguments):
    if (arguments[0] == int(shards) - 1) if arguments else shard_or_job.first > 0:
        time.sleep(1000)
    return unchanged(shard_or_job, *arguments)

def watch(stage):
    return lambda done, total: print(stage, done, flush=True)

if module:
    unchanged = getattr(importlib.import_module(module), name)
    setattr(importlib.import_module(module), name, last_never_ends)
order = True if name == "gather_rows" else None
where = {"folder": folder, "address": address, "shards": int(shards), "output": output, "order": order}
ray_fit(path, np.load(codes), **where, watch=watch)
"""


def killed(nodes, task, folder, place, until, times=1):
    """Kill a driver in which the last shard of ``place`` never ends, when it has printed a line ``times`` times."""
    path, _, y, _ = task
    folder.mkdir()
    np.save(folder / "codes.npy", y)
    words = [path, folder / "codes.npy", folder / "run", nodes.address, SHARDS, place, folder / "out"]
    command = [sys.executable, "-c", DRIVER, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            reached = list(itertools.islice((line for line in driver.stdout if line.startswith(until)), times))
        finally:
            driver.kill()
    assert len(reached) == times


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "until", "kept"),
    [
        ("laplacianshot.ray.fit.survey", "Reading 1", None),
        ("laplacianshot.ray.job.gather_rows", "Order 1", None),
        ("laplacianshot.ray.graph.search_shard", "Neighbors 1", "neighbors"),
        ("laplacianshot.ray.graph.join_edges", "Graph 1", "neighbors"),
        ("laplacianshot.ray.graph.build_graph", "Graph 1", "neighbors"),
        ("laplacianshot.ray.fit.write_shard", "Labels 1", "graph"),
    ],
)
def test_a_driver_killed_within_any_stage_goes_on(nodes, task, tmp_path, place, until, kept):
    path, _, y, local = task
    folder = tmp_path / "killed"
    # Both parts of the graph say how far they are.
    killed(nodes, task, folder, place, until, 2 if place.endswith("build_graph") else 1)

    def files():
        return {file.name: file.stat().st_mtime_ns for file in folder.glob(f"run/run-*/{kept}-*.npz")}

    before = files()
    order = True if until.startswith("Order") else None
    assert len(list((folder / "out").glob("labels-*.parquet"))) == (1 if kept == "graph" else 0)
    fit = ray_fit(path, y, folder=str(folder / "run"), shards=SHARDS, order=order, output=str(folder / "out"))
    assert_same(fit, local)
    assert len(list((folder / "out").glob("labels-*.parquet"))) == SHARDS
    if kept is not None:
        # What was finished is not done again.
        assert before
        assert before.items() <= files().items()


# Waits on a cluster for work that takes long.
LOST_HEAD = """
import sys, time
import laplacianshot.cli.app as app
from laplacianshot.cli import main
from laplacianshot.ray.cluster import connected

def wait(**_):
    with connected(sys.argv[1]) as cluster:
        print("connected", flush=True)
        cluster.map(time.sleep, [(300,)] * 2)

app.app = wait
main([])
"""


@contextlib.contextmanager
def head_node():
    """A head node in a process of its own, which can be killed: its process and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    # The paths of sockets are short.
    folder = tempfile.mkdtemp(prefix="head")
    start = f"start --head --block --port={address[10:]} --node-ip-address=127.0.0.1 --num-cpus=1".split()
    start += ["--include-dashboard=false", f"--temp-dir={folder}", f"--object-store-memory={100 * 2**20}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [str(Path(sys.executable).parent / "ray"), *start]
    head = subprocess.Popen(command, start_new_session=True, **quiet)
    try:
        while not _answers(address):
            time.sleep(0.2)
            if head.poll() is not None:
                # On a very busy machine a node may miss its own deadline.
                head = subprocess.Popen(command, start_new_session=True, **quiet)
        yield head, address
    finally:
        for process in psutil.Process(head.pid).children(recursive=True) if head.poll() is None else []:
            process.kill()
        head.kill()
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "victim", ["", "gcs_server", "raylet"], ids=["the whole node", "its head process", "its raylet"]
)
def test_a_killed_head_is_one_line_of_ours_within_half_a_minute(victim):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with head_node() as (head, address):
        driver = None
        try:
            while driver is None or driver.poll() is not None:
                driver = subprocess.Popen([sys.executable, "-c", LOST_HEAD, address], **pipes)
                if driver.stdout.readline() != "connected\n":
                    driver.communicate()
            for process in psutil.Process(head.pid).children(recursive=True):
                if victim in process.name():
                    process.kill()
            start = time.monotonic()
            out, err = driver.communicate(timeout=90)
            seconds = time.monotonic() - start
        finally:
            if driver is not None:
                driver.kill()
    # 1 where a call to Ray hung.
    assert driver.returncode in (1, 2)
    assert out == ""
    assert re.fullmatch(r"error: the (head node|node that this process).* does not answer any more; start it .*\n", err)
    assert seconds < 30


# Kills the node of a cluster of its own, and says what was printed.
LOST_NODE = """
import sys, time
import psutil
import laplacianshot.cli.app as app
from laplacianshot.cli import main
from laplacianshot.ray.cluster import connected

def wait(**_):
    with connected(cpus=1) as cluster:
        for process in psutil.Process().children(recursive=True):
            if process.name() == "raylet":
                process.kill()
        cluster.map(time.sleep, [(300,)] * 2)

app.app = wait
main([])
"""


@pytest.mark.slow
def test_a_killed_node_of_a_cluster_of_our_own_is_one_line_and_leaves_no_token(tmp_path):
    home = {**os.environ, "HOME": str(tmp_path)}
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", LOST_NODE], capture_output=True, text=True, timeout=300, env=home)
        if "timed out during startup" not in done.stderr:
            break
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert re.fullmatch(r"error: the .*node .* does not answer any more; start it .*\n", done.stderr)
    assert not list(tmp_path.rglob("auth_token"))


@pytest.mark.slow
def test_another_server_at_the_address_is_one_line_of_ours():
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        driver = [sys.executable, "-c", LOST_HEAD, address]
        done = subprocess.run(driver, capture_output=True, text=True, timeout=300)
    # 1 where Ray waits for an answer: nobody takes its connections.
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert re.fullmatch(rf"error: (no Ray cluster at|the head node of the cluster at) {address}.*\n", done.stderr)


@pytest.mark.slow
def test_a_killed_driver_goes_on_from_the_last_finished_stage_and_saved_round(nodes, task, tmp_path):
    path, _, y, local = task
    killed(nodes, task, tmp_path / "killed", "", "Updates 12")
    folder = tmp_path / "killed" / "run"
    kept = {file: file.stat().st_mtime_ns for file in folder.glob("run-*/neighbors-*.npz")}
    assert len(kept) == SHARDS
    fit = ray_fit(path, y, folder=str(folder), shards=SHARDS)
    assert {file: file.stat().st_mtime_ns for file in folder.glob("run-*/neighbors-*.npz")} == kept
    assert_same(fit, local)
    steps = fit.usage["step"].calls
    assert 0 < steps <= SHARDS * (len(fit.sent) - 1 - 10)


def test_accuracies_over_workers_are_those_of_this_machine(nodes, task):
    _, pixels, _, local = task
    digits = FeatureSet(pixels, local.transduction_)
    methods = ["laplacianshot", "simpleshot-cl2"]
    here = evaluate(digits, methods, shot=1, tasks=300)
    there = evaluate(digits, methods, shot=1, tasks=300, engine="ray")
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.accuracies, other.accuracies)


@pytest.mark.slow
def test_evaluate_prints_the_same_figures(nodes, task, tmp_path, capsys):
    _, pixels, _, local = task
    np.savez(tmp_path / "digits.npz", features=pixels, labels=local.transduction_)
    words = ["evaluate", str(tmp_path / "digits.npz"), "--methods", "simpleshot-cl2", "--tasks", "50", "--json"]
    printed = []
    for engine in ([], ["--engine", "ray", "--address", nodes.address]):
        assert run([*words, *engine]) == 0
        printed.append(json.loads(capsys.readouterr().out)["results"][0]["verdict"])
    assert printed[0] == printed[1]


def mean_colors(path):
    """An encoder of pictures in an ONNX file: the mean of each channel."""
    onnx = pytest.importorskip("onnx", reason="needs the extra label")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("ReduceMean", ["x"], ["out"], axes=[2, 3], keepdims=0)
    given, made = helper.make_tensor_value_info("x", kind, ["n", 3, 32, 32]), ["out", kind, None]
    graph = helper.make_graph([node], "colors", [given], [helper.make_tensor_value_info(*made)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return f"onnx:{path}"


@pytest.mark.slow
def test_pictures_are_encoded_by_workers_and_a_lost_node_changes_nothing(nodes, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs the extra label")
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(60):
        color = np.array([[220, 30, 30], [30, 30, 220]])[number % 2] + rng.integers(-25, 25, 3)
        image.new("RGB", (40, 40), tuple(color.tolist())).save(folder / f"{number:02}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    labels = {"00.png": "red", "01.png": "blue"}
    encoder = mean_colors(tmp_path / "colors.onnx")
    here = label_source(folder, labels, encoder=encoder, cache=False)
    there = label_source(
        folder,
        labels,
        encoder=encoder,
        cache=False,
        engine="ray",
        address=nodes.address,
        run_folder=str(tmp_path / "run"),
        shards=6,
        watch=Stages(Vectors=[(1, nodes.lose_one)]),
    )
    assert (there.ids, there.skipped) == (here.ids, here.skipped)
    np.testing.assert_array_equal(there.vectors, here.vectors)
    np.testing.assert_array_equal(there.codes, here.codes)
    np.testing.assert_allclose(there.confidence, here.confidence, atol=1e-3)


@pytest.fixture
def labels_file(task, tmp_path):
    _, _, y, _ = task
    lines = ["id,label", *(f"{row},digit {y[row]}" for row in np.flatnonzero(y >= 0))]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return tmp_path / "labels.csv"


def label_on_ray(nodes, *words):
    cluster = ["--engine", "ray", "--address", nodes.address, "--shards", SHARDS]
    return run([str(word) for word in ["label", *words, *cluster]])


@pytest.mark.slow
def test_the_command_writes_what_it_writes_on_one_machine(nodes, task, kept, labels_file, tmp_path):
    path, _, _, local = task
    words = [path, "--labels", labels_file, "-o", tmp_path / "out.csv", "--run-folder", kept]
    assert label_on_ray(nodes, *words) == 0
    with (tmp_path / "out.csv").open() as file:
        found = [row["label"] for row in csv.DictReader(file)]
    assert found == [f"digit {code}" for code in local.transduction_]


def test_the_command_labels_a_folder_of_shards_into_a_folder(nodes, task, labels_file, tmp_path, capsys):
    pd = pytest.importorskip("pandas")
    _, pixels, _, local = task
    folder = tmp_path / "set"
    folder.mkdir()
    for number, part in enumerate((pixels[:898], pixels[898:])):
        np.save(folder / f"part-{number}.npy", part)
    out = tmp_path / "out"
    words = [folder, "--labels", labels_file, "-o", out, "--json"]
    first_run = 0
    for _ in range(2):
        assert label_on_ray(nodes, *words) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == len(pixels)
        found = pd.read_parquet(out)
        assert found["row"].tolist() == list(range(len(pixels)))
        assert found["label"].tolist() == [f"digit {code}" for code in local.transduction_]
        first_run = first_run or time.time_ns()
        # As from a run with more shards: the next one takes it away.
        shutil.copy(out / "labels-00001.parquet", out / "labels-00002.parquet")
    last = Path(json.loads((out / "_run" / "run.json").read_text())["folder"])
    assert last.parent == out / "_run"
    # The second run found every stage finished: nothing that it keeps was written again.
    assert not [file for file in last.glob("*.np*") if file.stat().st_mtime_ns > first_run]
    assert label_on_ray(nodes, *words, "--suggest", 3) == 2
    assert "--suggest is not supported for shards" in capsys.readouterr().err


class TestTooSmall:
    def test_a_set_beyond_the_cluster_is_refused_before_any_work(self, nodes, tmp_path):
        from laplacianshot.ray import ClusterError

        path = tmp_path / "rows.npy"
        # Sparse: nothing is written but the header.
        np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(5_000_000, 2)).flush()
        stages = Stages()
        with pytest.raises(
            ClusterError, match=r"too small: this needs .* GB of .* at least and there are .* add nodes"
        ):
            ray_fit(
                path, (np.array([0, 1]), np.array([0, 1])), folder=str(tmp_path / "run"), shards=SHARDS, watch=stages
            )
        assert not stages.seen


class TestBadInput:
    def test_a_shard_that_is_not_finite_is_named(self, nodes, task, tmp_path):
        _, pixels, y, _ = task
        folder = tmp_path / "set"
        folder.mkdir()
        spoilt = pixels.copy()
        spoilt[1500, 3] = np.nan
        for part in range(3):
            np.save(folder / f"part-{part}.npy", spoilt[part * 599 : (part + 1) * 599])
        with pytest.raises(ValueError, match=r"part-2.npy, rows .*NaN"):
            ray_fit(folder, y, folder=str(tmp_path / "run"))

    def test_more_shards_than_rows_are_refused(self, nodes, tmp_path):
        np.save(tmp_path / "rows.npy", np.eye(5, dtype=np.float32))
        with pytest.raises(ValueError, match=r"shards is 6 and .* has 5 rows"):
            ray_fit(tmp_path / "rows.npy", [0, 1, -1, -1, -1], folder=str(tmp_path / "run"), shards=6)
