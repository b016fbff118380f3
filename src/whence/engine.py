"""The whole house behind one object."""
