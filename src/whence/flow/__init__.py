"""From a flow file to running processors."""
