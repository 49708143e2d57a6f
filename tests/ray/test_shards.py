from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.ray.shards import open_shards

fsspec = pytest.importorskip("fsspec", reason="needs the extra ray")


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)


def read(shards):
    return np.concatenate([shard.read() for shard in shards])


class TestNpy:
    @pytest.mark.parametrize("count", [1, 2, 7, 50])
    def test_a_file_is_cut_into_ranges_of_rows_of_equal_size(self, rows, tmp_path, count):
        np.save(tmp_path / "rows.npy", rows)
        shards = open_shards(tmp_path / "rows.npy", count)
        assert len(shards) == count
        assert [shard.first for shard in shards] == [shard.start for shard in shards]
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
        np.testing.assert_array_equal(read(shards), rows)

    def test_files_of_a_folder_are_read_in_the_order_of_their_names(self, rows, tmp_path):
        for number, part in enumerate(np.array_split(rows, 3)):
            np.save(tmp_path / f"part-{number}.npy", part)
        shards = open_shards(tmp_path, 5)
        assert [shard.first for shard in shards] == sorted(shard.first for shard in shards)
        np.testing.assert_array_equal(read(shards), rows)
        np.testing.assert_array_equal(read(open_shards(f"{tmp_path}/part-*.npy")), rows)

    def test_a_file_system_that_is_not_this_machine_s_is_read_by_bytes(self, rows):
        fs = fsspec.filesystem("memory")
        with fs.open("/set/rows.npy", "wb") as file:
            np.save(file, rows)
        np.testing.assert_array_equal(read(open_shards("memory://set/rows.npy", 3)), rows)

    def test_whole_numbers_become_float64(self, tmp_path):
        np.save(tmp_path / "rows.npy", np.arange(6).reshape(3, 2))
        assert open_shards(tmp_path / "rows.npy")[0].read().dtype == np.float64


class TestParquet:
    @pytest.fixture
    def path(self, rows, tmp_path):
        pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
        import pyarrow.parquet as pq

        table = pa.table({"id": list(range(50)), "features": list(rows)})
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=8)
        return tmp_path / "rows.parquet"

    @pytest.mark.parametrize("count", [1, 3])
    def test_row_groups_are_read_as_far_as_a_shard_goes(self, rows, path, count):
        shards = open_shards(path, count)
        assert len(shards) == count
        np.testing.assert_array_equal(read(shards), rows)

    def test_without_a_column_of_vectors_it_is_refused(self, tmp_path):
        pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match="no column holds lists of numbers"):
            open_shards(tmp_path / "rows.parquet")

    def test_vectors_of_different_lengths_are_refused_by_their_rows_in_the_file(self, tmp_path):
        pa = pytest.importorskip("pyarrow", reason="needs the extra parquet")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"features": [[1.0, 2.0]] * 5 + [[1.0]]}), tmp_path / "rows.parquet")
        shards = open_shards(tmp_path / "rows.parquet", 2)
        assert shards[0].read().shape == (3, 2)
        with pytest.raises(ValueError, match="holds 2 numbers in row 3 and 1 in row 5"):
            shards[1].read()


class TestRefused:
    def test_nothing_there(self, tmp_path):
        with pytest.raises(ValueError, match=r"no .npy or .parquet files found"):
            open_shards(tmp_path)

    def test_more_shards_than_rows(self, rows, tmp_path):
        np.save(tmp_path / "rows.npy", rows)
        with pytest.raises(ValueError, match=r"shards is 51 and .* has 50 rows"):
            open_shards(tmp_path / "rows.npy", 51)

    def test_files_of_different_widths(self, rows, tmp_path):
        np.save(tmp_path / "a.npy", rows)
        np.save(tmp_path / "b.npy", rows[:, :3])
        with pytest.raises(ValueError, match=r"b.npy has vectors of 3 numbers and .*a.npy of 4"):
            open_shards(tmp_path)

    @pytest.mark.parametrize(
        ("array", "match"),
        [
            (np.zeros(3), r"has shape \(3,\)"),
            (np.array([["a"]]), "dtype <U1"),
            (np.asfortranarray(np.ones((3, 2))), "column by column"),
            (np.zeros((0, 2)), "holds no rows"),
        ],
    )
    def test_what_is_no_matrix_of_numbers(self, array, match, tmp_path):
        np.save(tmp_path / "rows.npy", array)
        with pytest.raises(ValueError, match=match):
            open_shards(tmp_path / "rows.npy")

    def test_what_is_no_npy(self, tmp_path):
        (tmp_path / "rows.npy").write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=r"rows.npy is not a .npy file"):
            open_shards(tmp_path / "rows.npy")
