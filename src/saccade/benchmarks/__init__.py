"""Speed, measured: every benchmark is a function that returns a dictionary of numbers from one run."""
