"""How a schema comes to be: drafted from records, read from dictionaries."""
