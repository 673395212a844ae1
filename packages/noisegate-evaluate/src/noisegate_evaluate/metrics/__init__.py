"""One file a metric: how far synthetic records are from real ones, table by table or in features of images."""
