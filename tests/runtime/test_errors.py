import importlib
import pkgutil

import laplacianshot
from laplacianshot.runtime.errors import LaplacianShotError


def test_every_error_of_the_package_has_one_base():
    found = []
    for module in pkgutil.walk_packages(laplacianshot.__path__, "laplacianshot."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            ours = isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module.name
            if ours and not value.__name__.startswith("_") and not issubclass(value, LaplacianShotError):
                found.append(f"{module.name}.{value.__name__}")
    assert found == []
