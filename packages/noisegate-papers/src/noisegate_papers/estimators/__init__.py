"""Estimators with the interface of scikit-learn, fitted through the gate."""
