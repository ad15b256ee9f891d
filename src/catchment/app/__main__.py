"""`python -m catchment.app` is the `catchment` command."""

from catchment.app.cli import main

main()
