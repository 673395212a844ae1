"""The guided interview of `noisegate start`: questions, asked in a terminal or on a page in a browser."""
