"""What people meet: the command line, the jobs it starts, reports."""
