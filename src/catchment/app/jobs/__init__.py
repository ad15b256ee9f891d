"""The only place where things are started."""
