"""Measured claims; each script prints ratios of one run and takes `--json`."""
