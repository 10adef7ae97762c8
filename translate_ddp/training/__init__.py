"""What one step is, what a run is, and what is kept of it."""
