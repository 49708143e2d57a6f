"""Compare any classifier with LaplacianShot on the same few-shot tasks."""

from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from laplacianshot import FeatureSet, evaluate


class OneNearestNeighbor:
    """A method is anything with fit(X, y), where -1 means unlabeled, and transduction_ afterwards."""

    def fit(self, X, y):
        labeled = y != -1
        self.transduction_ = KNeighborsClassifier(n_neighbors=1).fit(X[labeled], y[labeled]).predict(X)
        return self


X, digits = load_digits(return_X_y=True)
methods = {"1-nn": OneNearestNeighbor(), "laplacianshot": "laplacianshot", "simpleshot": "simpleshot-cl2"}
results = evaluate(FeatureSet(X, digits), methods, way=5, shot=1, query=15, tasks=200)
print(results)

# Every method saw the same tasks, so the difference has an interval of its own.
difference = results.difference("laplacianshot", "1-nn")
print(f"laplacianshot is {100 * difference.mean:.1f} ± {100 * difference.ci95:.1f} points better than 1-nn")
