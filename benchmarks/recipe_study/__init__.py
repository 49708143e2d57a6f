"""How the default recipe was changed and questioned: the scripts behind docs/method/center.md and experiments.md.

``common``, ``recipe`` and ``variants`` are imported by the others; ``center``, ``weak_spots``, ``monotone``,
``few_queries`` and ``collapse`` are run from the root of the repository. All but the last two solve the recipe with
``recipe``, which was written from its description alone and shares no code with the package.
"""
