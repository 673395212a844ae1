"""Tables that are linked by keys: their schemas, readers, method and model."""
