"""How well classifiers learn from synthetic records: suites of recipes, one runner and one report."""
