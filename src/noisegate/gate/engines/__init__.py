"""Where a sum runs. Every engine gives the same bits, since the sum is exact."""
