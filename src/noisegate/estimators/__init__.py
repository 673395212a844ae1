"""Estimators with the interface of scikit-learn, fitted through the gate."""

from noisegate.estimators.locally_linear_maps import LocallyLinearMaps
from noisegate.estimators.private_sampler import PrivateSampler

__all__ = ["LocallyLinearMaps", "PrivateSampler"]
