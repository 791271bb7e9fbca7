"""The shells: the only place where the parts meet."""
