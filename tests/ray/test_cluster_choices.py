"""What is told in one line before any cluster is asked."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from laplacianshot import FeatureSet, LaplacianShot, evaluate, label_source
from laplacianshot.estimator import fit_large
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.ray import ClusterError, RayEngine, cluster, connected


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(6, dtype=np.float32))
    return tmp_path / "rows.npy"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"engine": "spark"}, "engine must be one of 'local', 'ray', got 'spark'"),
        ({"address": "127.0.0.1:1"}, "address belongs to engine 'ray'"),
        ({"shards": 3}, "shards belongs to engine 'ray'"),
        ({"engine": "ray", "address": "127.0.0.1:1"}, "needs run_folder"),
    ],
)
def test_options_that_do_not_go_together(rows, options, match):
    with pytest.raises(LabelingError, match=match):
        label_source(rows, {"0": "a", "1": "b"}, **options)


def test_nobody_at_the_address(rows, tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    with (
        pytest.raises(ClusterError, match=r"no Ray cluster at 127.0.0.1:1 \(.*refused.*\); give host:port"),
        connected("127.0.0.1:1"),
    ):
        pass
    with pytest.raises(LabelingError, match="no Ray cluster at"):
        label_source(rows, {"0": "a", "1": "b"}, engine="ray", address="127.0.0.1:1", run_folder=str(tmp_path / "run"))


def test_a_head_that_does_not_answer_ends_the_wait(monkeypatch):
    class Silent:
        """What Ray does when its head is gone: nothing is ever done, and questions to the head would never end."""

        def wait(self, refs, **_):
            return [], refs

        def nodes(self):
            raise AssertionError("would wait for ever")

        def get_runtime_context(self):
            return SimpleNamespace(gcs_address="127.0.0.1:1")

    monkeypatch.setattr(cluster, "_HEAD_PATIENCE", 0.1)
    with pytest.raises(cluster.HeadLost, match=r"head node of the cluster at 127\.0\.0\.1:1 does not answer"):
        cluster.Cluster(Silent()).results("nothing", ["a reference"])


@pytest.mark.parametrize(
    "address", ["none", "", "10.0.0.1", ":6379", "10.0.0.1:head", "host:70000", "ray://host:10001"]
)
def test_an_address_is_host_and_port_or_auto(address):
    with (
        pytest.raises(ClusterError, match=rf"^address is '{address}'; give HOST:PORT of the head node, .* or auto\.$"),
        connected(address),
    ):
        pass


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (LaplacianShot.paper(), "recipe='paper' is not supported on Ray"),
        (LaplacianShot(graph=sp.eye_array(6, format="csr")), "A graph of your own is not supported on Ray"),
        (LaplacianShot(base_mean="pooled"), "base_mean='pooled' is not supported on Ray"),
    ],
)
def test_what_is_only_there_on_one_machine(model, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        fit_large(model, np.eye(6), [0, 1, -1, -1, -1, -1], engine=RayEngine(run_folder=str(tmp_path)).fit)


def test_engines_of_an_evaluation():
    digits = FeatureSet(np.eye(40, dtype=np.float32), np.arange(40) // 4)
    with pytest.raises(ValueError, match="engine must be one of 'local', 'ray', got 'dask'"):
        evaluate(digits, "simpleshot-cl2", query=2, tasks=2, engine="dask")
    with pytest.raises(ValueError, match="address belongs to engine 'ray'"):
        evaluate(digits, "simpleshot-cl2", query=2, tasks=2, address="127.0.0.1:1")
