"""The mathematics of ``inference``, fast and at any size."""
