"""Label the rest of a data set from five labeled rows per class."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from laplacianshot import LaplacianShot

# 1,797 pictures of digits, 8 x 8 pixels each. Keep 180 of them for later.
X, digits = load_digits(return_X_y=True)
X, X_new, digits, new_digits = train_test_split(X, digits, test_size=180, random_state=0, stratify=digits)

# Five rows per class have a label. -1 means: no label.
rng = np.random.default_rng(0)
y = np.full(len(X), -1)
for digit in range(10):
    chosen = rng.choice(np.flatnonzero(digits == digit), 5, replace=False)
    y[chosen] = digit

clf = LaplacianShot().fit(X, y)

unlabeled = y == -1
accuracy = np.mean(clf.transduction_[unlabeled] == digits[unlabeled])
print(f"{unlabeled.sum()} rows without a label: {accuracy:.1%} are labeled correctly")

# The probabilities rank rows well: look at the lowest ones first. They are not calibrated.
ranking = np.argsort(clf.label_distributions_.max(axis=1))
print("rows to check first:", ranking[:10])

# New rows, without a new fit.
print(f"{len(X_new)} new rows: {np.mean(clf.predict(X_new) == new_digits):.1%} are labeled correctly")
