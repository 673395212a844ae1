"""Feature maps: one record to one vector of bounded norm. Public, and frozen once built."""
