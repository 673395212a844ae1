"""The data sets of DP-MERF and DP-HP: read as they are published, with schemas from their documentation alone."""
