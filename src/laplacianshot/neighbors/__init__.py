"""Nearest neighbors, exact and approximate, with measured recall."""
