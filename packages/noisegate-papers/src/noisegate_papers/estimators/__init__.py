"""Estimators with the interface of scikit-learn, fitted through the gate."""

from noisegate_papers.estimators.locally_linear_maps import LocallyLinearMaps
from noisegate_papers.estimators.private_sampler import PrivateSampler

__all__ = ["LocallyLinearMaps", "PrivateSampler"]
