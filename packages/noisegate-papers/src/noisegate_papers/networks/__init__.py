"""Classifiers of images as plain torch modules: no data, no training, no privacy. Methods and evaluation share them."""
