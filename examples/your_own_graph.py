"""Use a neighbor graph that another library has made."""

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from laplacianshot import LaplacianShot

X, digits = load_digits(return_X_y=True)
y = np.where(np.arange(len(X)) < 50, digits, -1)  # the first fifty rows have a label


def graph_of(neighbors: np.ndarray) -> sparse.csr_array:
    """Turn an (n, k) array of neighbor indices into an (n, n) graph with weights of 1."""
    n, k = neighbors.shape
    return sparse.csr_array((np.ones(n * k), neighbors.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


# scikit-learn here. faiss, pynndescent and usearch give the same (n, k) array of indices.
neighbors = NearestNeighbors(n_neighbors=13).fit(X).kneighbors(return_distance=False)
clf = LaplacianShot(graph=graph_of(neighbors)).fit(X, y)

own = LaplacianShot().fit(X, y)
for name, fitted in [("scikit-learn's neighbors", clf), ("our neighbors", own)]:
    print(f"{name}: {np.mean(fitted.transduction_[50:] == digits[50:]):.1%}")
