"""What the machine itself can do, before anything is asked of a broker on it."""
