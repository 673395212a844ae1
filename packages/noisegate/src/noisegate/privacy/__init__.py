"""What a guarantee is: bounds, noise, accounting, plans, ledgers and certificates. Knows no data."""
