"""The paper and the recommended recipe, as mathematics in numpy."""
