"""What a run was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from laplacianshot import __version__
from laplacianshot.runtime.threads import available_threads

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "torch", "safetensors", "pillow")


def environment() -> dict[str, str]:
    """Versions and cores, by name."""
    found = {
        "laplacianshot": __version__,
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(available_threads()),
    }
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
