"""The studio: the same job as :mod:`laplacianshot.labeling`, in a browser.

Data flow one way here too: actions of people (:mod:`~laplacianshot.studio.changes`) are kept
(:mod:`~laplacianshot.studio.store`), the set is relabeled (:mod:`~laplacianshot.studio.relabel`), what was found is
looked at (:mod:`~laplacianshot.studio.view`), and the web (:mod:`~laplacianshot.studio.app`) only passes it on.
"""
