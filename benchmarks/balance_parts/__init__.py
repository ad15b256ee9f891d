"""The parts of the benchmark `balance`: one file for each method."""
