"""Shards in and out of an object store: a server that speaks as S3 does, and the command as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from laplacianshot import LaplacianShot

pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray", reason="needs the extra ray")
s3fs = pytest.importorskip("s3fs", reason="needs s3fs, of the extra test")
moto = pytest.importorskip("moto.server", reason="needs moto, of the extra test")


@pytest.fixture(scope="module")
def store():
    """What a program finds the store by, in its surroundings."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server.stop()


@pytest.mark.slow
def test_shards_are_labeled_from_a_bucket_into_a_bucket(digits, store, tmp_path, monkeypatch):
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    X, _, y = digits
    files = s3fs.S3FileSystem()
    files.mkdir("vectors")
    for number, rows in enumerate(np.array_split(np.arange(len(X)), 3)):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[rows].ravel()), X.shape[1])
        pq.write_table(pa.table({"vector": vectors}), f"vectors/part-{number}.parquet", filesystem=files)
    labels = tmp_path / "labels.csv"
    given = np.flatnonzero(y >= 0)
    labels.write_text("id,label\n" + "".join(f"{row},{y[row]}\n" for row in given), encoding="utf-8")
    command = [sys.executable, "-m", "laplacianshot", "label", "s3://vectors/", "--labels", str(labels)]
    command += ["--engine", "ray", "-o", "s3://vectors-labels/out"]
    files.mkdir("vectors-labels")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env={**os.environ, **store}, check=False
    )
    assert done.returncode == 0, done.stderr
    files.invalidate_cache()
    assert files.glob("vectors-labels/out/_run/run-*/solution.npz")
    table = pq.read_table("vectors-labels/out", filesystem=files)
    order = np.argsort(table["row"].to_numpy())
    found = np.array(table["label"].to_pylist())[order].astype(int)
    np.testing.assert_array_equal(np.sort(table["row"].to_numpy()), np.arange(len(X)))
    np.testing.assert_array_equal(np.array(table["origin"].to_pylist())[order] == "given", y >= 0)
    one_machine = LaplacianShot().fit(X, y).transduction_
    assert np.mean(found == one_machine) > 0.999
