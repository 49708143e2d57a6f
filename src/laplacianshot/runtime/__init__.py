"""What every room stands on: types, threads, compilation, extras, progress, files and locks."""
