"""What processes, brokers and the machine did while something was measured, on one timeline in UTC."""
