"""``python -m laplacianshot``: the command where no script was installed."""

from laplacianshot.cli import main

main()
