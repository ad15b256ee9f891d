"""Rules: how sites and coordinator share the watching, one a file."""
