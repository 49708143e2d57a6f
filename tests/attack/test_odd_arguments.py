"""Arguments of unusual types: refused in one line that names the argument, or a sound result."""

from __future__ import annotations

import datetime
import decimal
import fractions
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from laplacianshot import LaplacianShot
from tests.attack.conftest import in_time
from tests.attack.test_estimator import check_error, check_result, given_of

rng = np.random.default_rng(0)
n, d, C = 24, 4, 3
truth = np.arange(n) % C
X = np.eye(C, d)[truth] * 3 + 0.3 * rng.standard_normal((n, d))
y = np.where(np.arange(n) < 9, truth, -1)
none = np.full(n, -1)
T = np.eye(C, d)
sure = np.eye(C)[truth]
rec = np.zeros(n, dtype=[("a", "f8"), ("b", "f8")])
df = pd.DataFrame(X, columns=list("abcd"))
D = datetime.date


def ys(names: list[Any]) -> list[Any]:
    """These labels for the rows that have one."""
    return [names[t] if t >= 0 else None for t in y]


def fixed(array: Any) -> Any:
    array.setflags(write=False)
    return array


ROWS: dict[str, Any] = {
    "structured": rec,
    "structured2d": np.zeros((n, 2), dtype=[("a", "f8"), ("b", "f8")]),
    "recarray": rec.view(np.recarray),
    "datetime": np.full((n, d), np.datetime64("2020-01-01")),
    "timedelta": np.ones((n, d), "m8[s]"),
    "longdouble": X.astype(np.longdouble),
    "longdouble huge": X.astype(np.longdouble) * np.longdouble("1e4000"),
    "clongdouble": X.astype(np.clongdouble),
    "bigendian f4": X.astype(">f4"),
    "bigendian f2": X.astype(">f2"),
    "bigendian i4": (X * 100).astype(">i4"),
    "bytes": X.astype("S"),
    "unicode": X.astype(str),
    "void": np.zeros((n, d), "V8"),
    "object strings": X.astype(str).astype(object),
    "object None": np.where(X > 9, X, None),
    "object Decimal": np.vectorize(decimal.Decimal)(X),
    "object Fraction": np.vectorize(lambda v: fractions.Fraction(v))(X),
    "object lists": np.array([[[1, 2] for _ in range(d)] for _ in range(n)], dtype=object),
    "object ints 2**100": np.full((n, d), 2**100, dtype=object),
    "uint64 max": np.full((n, d), 2**64 - 1, dtype=np.uint64),
    "int64 min": np.full((n, d), -(2**63)),
    "ragged": [[1, 2], [3]] * 12,
    "ragged obj": np.array([[1, 2], [3]] * 12, dtype=object),
    "0d": np.array(3.0),
    "scalar": 3,
    "None": None,
    "str": "hello",
    "bytes1": b"xx",
    "dict": {"a": X},
    "set": {1, 2},
    "generator": (r for r in X),
    "iterator of rows": iter(X),
    "range": range(n),
    "list of arrays": list(X),
    "tuple": tuple(map(tuple, X)),
    "memoryview": memoryview(X),
    "np.matrix": np.matrix(X),
    "denormal": X * 5e-324,
    "negative zero": X * -0.0,
    "inf in f2": (X * 1e5).astype(np.float16),
    "4d": X[None, None],
    "transposed view": np.asfortranarray(X.T).T,
    "stride0": np.broadcast_to(X[0], (n, d)),
    "neg stride": X[:, ::-1],
    "readonly": fixed(X.copy()),
    "StringDType": X.astype(str).astype(np.dtypes.StringDType()),
    "class with __array__": type("A", (), {"__array__": lambda self, dtype=None, copy=None: X})(),
    "class with len only": type("A", (), {"__len__": lambda self: n})(),
    "array subclass": X.view(type("S", (np.ndarray,), {})),
}
SPARSE = {
    f"{name}_{kind}": getattr(sp, f"{name}_{kind}")(X)
    for name in ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
    for kind in ("array", "matrix")
} | {"sparse 1d": sp.coo_array(X[0])}
FRAMES: dict[str, Any] = {
    "dup columns": pd.DataFrame(X, columns=["a", "a", "b", "b"]),
    "int columns": pd.DataFrame(X),
    "mixed columns": pd.DataFrame(X, columns=["a", 1, 2.5, None]),
    "Float64": df.astype("Float64"),
    "Float64 NA": df.astype("Float64").mask(df > 3),
    "Int64": (df * 10).round().astype("Int64"),
    "Int64 NA": (df * 10).round().astype("Int64").mask(df > 3),
    "boolean NA": (df > 0).astype("boolean").mask(df > 3),
    "string": df.astype("string"),
    "category": df.round().astype("category"),
    "Sparse": df.astype(pd.SparseDtype("float", 0)),
    "datetime col": df.assign(d=pd.Timestamp("2020")),
    "tz": df.assign(d=pd.Timestamp("2020", tz="UTC")),
    "timedelta": df.assign(d=pd.Timedelta("1s")),
    "period": df.assign(d=pd.Period("2020")),
    "interval": df.assign(d=pd.Interval(0, 1)),
    "object col": df.assign(d="x"),
    "multiindex": pd.DataFrame(X, columns=pd.MultiIndex.from_product([["a", "b"], [1, 2]])),
    "dup index": pd.DataFrame(X, index=[0] * n),
    "empty df": df.iloc[:0],
    "no columns": df[[]],
    "series": df["a"],
    "pyarrow": df.convert_dtypes(dtype_backend="pyarrow"),
    "pyarrow NA": df.convert_dtypes(dtype_backend="pyarrow").mask(df > 3),
    "nested": pd.DataFrame({"v": [[1, 2]] * n}),
    "complex": df.astype(complex),
    "arr": pd.array(X[:, 0]),
}
LABELS: dict[str, Any] = {
    "datetime64": np.where(y < 0, np.datetime64("NaT"), np.array(["2020", "2021", "2022"], "M8[Y]")[y]),
    "timedelta": y.astype("m8[s]"),
    "complex": y.astype(complex),
    "bytes S": np.array([b"a", b"b", b"c"])[y],
    "list of bytes": ys([b"a", b"b", b"c"]),
    "structured": np.zeros(n, dtype=[("a", "i4")]),
    "longdouble": y.astype(np.longdouble),
    "float16": y.astype(np.float16),
    "bigendian": y.astype(">i2"),
    "uint8": np.where(y < 0, 0, y).astype(np.uint8),
    "dates": ys([D(2020, 1, 1), D(2021, 1, 1), D(2022, 1, 1)]),
    "tuples": ys([(1,), (2,), (3,)]),
    "Decimals": ys([decimal.Decimal(1), decimal.Decimal(2), decimal.Decimal(3)]),
    "np.str_": ys(list(np.array(["a", "b", "c"]))),
    "mixed np/py": [np.int64(t) if i % 2 else int(t) for i, t in enumerate(y)],
    "cat NA": pd.Categorical(ys(["a", "b", "c"])),
    "Series string NA": pd.Series(ys(["a", "b", "c"]), dtype="string"),
    "boolean NA": pd.Series([None if t < 0 else bool(t % 2) for t in y], dtype="boolean"),
    "Int64 NA": pd.Series([None if t < 0 else t for t in y], dtype="Int64"),
    "Float64 NA": pd.Series([None if t < 0 else float(t) for t in y], dtype="Float64"),
    "pyarrow str": pd.Series(ys(["a", "b", "c"]), dtype="string[pyarrow]"),
    "period": pd.Series(pd.PeriodIndex(["2020", "2021", "2022"] * 8, freq="Y")),
    "timestamps": pd.Series(pd.to_datetime(["2020", "2021", "2022"] * 8)),
    "index": pd.Index(ys(["a", "b", "c"])),
    "DataFrame 1col": pd.DataFrame({"y": y}),
    "DataFrame 2col": pd.DataFrame({"y": y, "z": y}),
    "generator": (t for t in y),
    "range": range(n),
    "set": set(y.tolist()),
    "dict": dict(enumerate(y.tolist())),
    "str": "abc" * 8,
    "bytes1": b"abc" * 8,
    "0d": np.array(1),
    "int": 3,
    "sparse": sp.csr_array(y[None]),
    "nul chars": ys(["a\0", "a", "b"]),
    "NFC/NFD": ys(["\u00e9", "e\u0301", "b"]),
    "spaces": ys(["a", " a", "a "]),
    "long": ys(["a" * 10**6, "b", "c"]),
    "inf": np.where(y < 0, -1, np.where(y == 0, np.inf, y)),
    "0.1+0.2": [0.1 + 0.2 if t == 0 else 0.3 if t == 1 else -1 for t in y],
    "True and 1": [True if t == 0 else 1 if t == 1 else -1 for t in y],
    "1 and 1.0": [1 if t == 0 else 1.0 if t == 1 else 2 if t == 2 else -1 for t in y],
    "-0.0": [-0.0 if t == 0 else 0.0 if t == 1 else 1.0 if t == 2 else -1.0 for t in y],
    "masked all": np.ma.masked_all(n, int),
    "all classes unique": np.arange(n),
    "neg only": np.where(y < 0, -1, -y - 2),
    "int8": y.astype(np.int8),
    "StringDType NA": np.array([("" if t < 0 else "abc"[t]) for t in y], dtype=np.dtypes.StringDType()),
    "readonly": fixed(y.copy()),
    "2**64": ys([2**64, 2**64 + 1, 2**65]),
    "nan strings": ys(["nan", "b", "c"]),
    "numpy nan obj": np.array([np.nan if t < 0 else "abc"[t] for t in y], dtype=object),
    "column vector": y[:, None],
    "row vector": y[None],
}
KNOWN: dict[str, Any] = {
    "names ok": {"names": T},
    "names 1d": {"names": T[0]},
    "names wrong dim": {"names": T[:, :2]},
    "names wrong count": {"names": T[:2]},
    "names nan": {"names": T * np.nan},
    "names zero": {"names": T * 0},
    "names str": {"names": ["a", "b", "c"]},
    "names list": {"names": T.tolist()},
    "names df": {"names": pd.DataFrame(T)},
    "names sparse": {"names": sp.csr_array(T)},
    "names complex": {"names": T.astype(complex)},
    "names f2": {"names": T.astype(np.float16)},
    "names huge": {"names": T * 1e200},
    "names tiny": {"names": T * 1e-300},
    "names equal": {"names": np.ones((C, d))},
    "names inf": {"names": np.where(T > 0, np.inf, 0)},
    "names empty": {"names": T[:0]},
    "names one": {"names": T[:1]},
    "names masked": {"names": np.ma.masked_array(T, mask=T > 0)},
    "names object": {"names": T.astype(object)},
    "names longdouble": {"names": T.astype(np.longdouble)},
    "names >f4": {"names": T.astype(">f4")},
    "names 3d": {"names": T[None]},
    "names int": {"names": T.astype(int)},
    "names many": {"names": rng.standard_normal((5000, d))},
    "names dict": {"names": {"a": T[0]}},
    "names 0": {"names": 0},
    "names True": {"names": True},
    "classes without": {"classes": [0, 1, 2]},
    "classes dup": {"names": T, "classes": [0, 1, 1]},
    "classes short": {"names": T, "classes": [0, 1]},
    "classes 2d": {"names": T, "classes": [[0], [1], [2]]},
    "classes str": {"names": T, "classes": list("abc")},
    "classes None": {"names": T, "classes": [None, 1, 2]},
    "classes nan": {"names": T, "classes": [np.nan, 1, 2]},
    "classes -1": {"names": T, "classes": [-1, 1, 2]},
    "classes blank": {"names": T, "classes": ["", "b", "c"]},
    "classes mixed": {"names": T, "classes": [0, "b", 2]},
    "classes 0d": {"names": T, "classes": 3},
    "classes missing": {"names": T, "classes": [0, 1, 5]},
    "classes string": {"names": T, "classes": "abc"},
    "classes set": {"names": T, "classes": {0, 1, 2}},
    "classes series": {"names": T, "classes": pd.Series([0, 1, 2])},
    "classes float": {"names": T, "classes": [0.0, 1.0, 2.0]},
    "classes bool": {"names": T[:2], "classes": [True, False]},
    "classes perm": {"names": T[[2, 0, 1]], "classes": [2, 0, 1]},
    "prior ok": {"prior": sure},
    "prior neg": {"prior": -sure},
    "prior sum2": {"prior": 2 * sure},
    "prior nan row": {"prior": np.where(np.arange(n)[:, None] < 3, np.nan, 1 / 3) * np.ones((n, C))},
    "prior nan entry": {"prior": np.where((np.arange(n)[:, None] < 3) & (np.arange(C) == 0), np.nan, 1 / 3)},
    "prior all nan": {"prior": np.full((n, C), np.nan)},
    "prior short": {"prior": sure[:5]},
    "prior wide": {"prior": np.full((n, 5), 0.2)},
    "prior 1d": {"prior": truth},
    "prior str": {"prior": "x"},
    "prior inf": {"prior": np.full((n, C), np.inf)},
    "prior zero rows": {"prior": np.zeros((n, C))},
    "prior sparse": {"prior": sp.csr_array(sure)},
    "prior df": {"prior": pd.DataFrame(sure)},
    "prior bool": {"prior": sure > 0},
    "prior int": {"prior": sure.astype(int)},
    "prior f2": {"prior": np.full((n, C), 1 / 3, np.float16)},
    "prior complex": {"prior": sure * 1j},
    "prior object": {"prior": sure.astype(object)},
    "prior masked": {"prior": np.ma.masked_array(np.full((n, C), 1 / 3), mask=sure > 0)},
    "prior contradicts y": {"prior": np.eye(C)[(truth + 1) % C]},
    "prior tiny neg": {"prior": sure - 1e-12},
    "prior pandas NA": {"prior": pd.DataFrame(sure).astype("Float64").mask(sure > 2)},
    "prior and names": {"prior": sure, "names": T},
    "prior 0": {"prior": 0},
    "prior empty": {"prior": np.zeros((n, 0))},
}
SHARES: dict[str, Any] = {
    "equal": "equal",
    "str": "x",
    "short": [0.5, 0.5],
    "sum2": [1, 1, 1],
    "neg": [-1, 1, 1],
    "nan": [np.nan, 0.5, 0.5],
    "zero": [0, 0, 0],
    "one zero": [0, 0.5, 0.5],
    "inf": [np.inf, 1, 1],
    "2d": [[1 / 3] * 3],
    "dict": {0: 0.2, 1: 0.3, 2: 0.5},
    "set": {0.2, 0.3, 0.5},
    "series": pd.Series([0.2, 0.3, 0.5]),
    "0": 0,
    "True": True,
    "tiny": [1e-300, 0.5, 0.5],
    "int": [1, 2, 3],
    "object": np.array([0.2, 0.3, 0.5], dtype=object),
    "strs": ["a", "b", "c"],
    "complex": [0.2j, 0.3, 0.5],
    "longdouble": np.array([0.2, 0.3, 0.5], np.longdouble),
    "long": [1 / 5] * 5,
    "empty": [],
    "masked": np.ma.masked_array([0.2, 0.3, 0.5], mask=[1, 0, 0]),
    "generator": (v for v in [0.2, 0.3, 0.5]),
    "f2": np.array([0.2, 0.3, 0.5], np.float16),
    "NA": pd.array([0.2, None, 0.5]),
}


def check(model: LaplacianShot, rows: Any, labels: Any, case: str, **known: Any) -> None:
    """Fit, and hold it against the oracle."""
    arguments = ["X", "y", "names", "prior", "classes", "class_shares"]
    with in_time(case):
        try:
            model.fit(rows, labels, **known)
        except Exception as error:
            check_error(error, arguments, case)
            return
    flat = labels.to_numpy() if isinstance(labels, pd.DataFrame) else labels
    check_result(model, model.label_distributions_, flat, case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", [*ROWS, *SPARSE, *FRAMES])
def test_rows_of_unusual_types(what):
    check(LaplacianShot(), (ROWS | SPARSE | FRAMES)[what], y, what)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", LABELS)
def test_labels_of_unusual_types(what):
    check(LaplacianShot(), X, LABELS[what], what)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("labels", ["few labels", "no label"])
@pytest.mark.parametrize("what", KNOWN)
def test_what_is_known_of_classes_of_unusual_types(what, labels):
    check(LaplacianShot(), X, y if labels == "few labels" else none, what, **KNOWN[what])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", SHARES)
def test_class_shares_of_unusual_types(what):
    check(LaplacianShot(class_shares=SHARES[what]), X, y, what)


def test_dates_are_refused_and_not_counted_in_nanoseconds():
    for dates in (
        np.full((n, d), np.datetime64("2020-01-01")),
        np.ones((n, d), "m8[s]"),
        df.assign(d=pd.Timestamp("2020")),
    ):
        with pytest.raises(TypeError, match="X holds dates or times"):
            LaplacianShot().fit(dates, y)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e200])
def test_the_length_of_names_says_nothing(scale):
    assert (LaplacianShot().fit(X, none, names=T * scale).transduction_ == truth).all()


def test_a_mask_of_names_prior_or_shares_is_never_ignored():
    for known in ({"names": np.ma.masked_array(T, mask=T > 0)}, {"prior": np.ma.masked_array(sure, mask=sure > 0)}):
        with pytest.raises(ValueError, match="is a masked array with masked entries"):
            LaplacianShot().fit(X, y, **known)
    with pytest.raises(ValueError, match="class_shares is a masked array"):
        LaplacianShot(class_shares=np.ma.masked_array([0.2, 0.3, 0.5], mask=[1, 0, 0])).fit(X, y)


@pytest.mark.parametrize("blank", [-1, np.nan, None, ""])
def test_a_class_without_a_label_is_refused_by_its_position(blank):
    others = ["b", "c"] if isinstance(blank, str) else [1, 2]
    with pytest.raises(ValueError, match="classes has no label at position 0"):
        LaplacianShot().fit(X, none, names=T, classes=[blank, *others])


def test_labels_longer_than_the_classes_listed_keep_their_letters():
    # They were cut to the longest of classes.
    labels = ys(["cat", "catfish", "catamaran"])
    model = LaplacianShot().fit(X, labels, names=T[:2], classes=["cat", "dog"])
    assert model.classes_.tolist() == ["cat", "catamaran", "catfish", "dog"]
    assert all(model.transduction_[row] == label for row, label in given_of(labels))


def test_labels_between_whole_numbers_stay_apart_from_classes_of_whole_numbers():
    labels = [t + 0.0 if t != 1 else 1.0 for t in y.tolist()]
    model = LaplacianShot().fit(X, np.where(np.array(labels) == 2, 7.0, labels), names=T, classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2, 7]


def test_no_label_and_a_prior_that_says_nothing_is_refused():
    with pytest.raises(ValueError, match="prior is NaN everywhere"):
        LaplacianShot().fit(X, none, prior=np.full((n, C), np.nan))
