"""What the benchmarks share: options, tables, results on disk, time and memory, images and their scores."""
