"""Results as something to look at: one page that needs no network, figures, and tables for other programs."""
