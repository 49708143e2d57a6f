"""Ways to find exact neighbors without forming every product."""
