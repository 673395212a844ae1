"""What synthetic records are worth to classifiers: suites of recipes, one runner and one report."""
