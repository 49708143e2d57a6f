"""The studio: the job of :mod:`laplacianshot.labeling` in a browser.

Data flow one way. Each action of a person is a change that is saved at once (:mod:`~laplacianshot.studio.change_log`).
Background threads (:mod:`~laplacianshot.studio.engine`) then predict the other labels anew
(:mod:`~laplacianshot.studio.relabel`). A view (:mod:`~laplacianshot.studio.view`) puts given and predicted labels side
by side, and the web (:mod:`~laplacianshot.studio.app`, :mod:`~laplacianshot.studio.routes`) passes them on to the page.
"""
