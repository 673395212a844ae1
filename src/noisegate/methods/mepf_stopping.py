"""What DP-MEPF compares candidates by when it stops early: a network of its own, as the paper's Inception-v3.

Harder et al. (TMLR 2023), section 3.2: the second mean embedding, with ten times the noise, is of the last pooling
layer of Inception-v3. Its weights are rarely at hand; without them the means of the channels of the network that is
matched stand for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noisegate.methods.encoders import NetworkMethod
from noisegate.models.activations import chosen_activations
from noisegate.schema import Schema
from noisegate.settings import settings

if TYPE_CHECKING:
    from noisegate.features.perceptual import Activations
    from noisegate.networks.named import FrozenNetwork


@settings
class StoppingNetwork(NetworkMethod):
    """Base of methods that compare candidates by a second public network."""

    stopping_network: str | None = None
    """What candidates are compared by for private stopping, "inception:v3" as in the paper; None for the means of the
    channels of `network`."""
    stopping_weights: str | None = None
    """File of its weights; those of pytorch-fid in torch's cache by default, and never downloaded."""
    stopping_sha256: str | None = None
    """What that file hashes to."""

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as JSON; those of the second network, which earlier versions had not, where given."""
        given = super().to_json()
        return {name: value for name, value in given.items() if value is not None or not name.startswith("stopping_")}

    def compared(self) -> Activations:
        """Returns the map whose mean embedding says when to stop; a UserError if its network is not here."""
        network = self._stopping_encoder()
        if network is None:
            return self.activations(pool=True)
        return chosen_activations(network, network.layers, self.shape, pool=True)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings, with the digests of the networks that were used."""
        facts, network = super().public_facts(schema), self._stopping_encoder()
        if network is not None:
            facts["settings"]["stopping_sha256"] = network.sha256
        return facts

    def _stopping_encoder(self) -> FrozenNetwork | None:
        from noisegate.networks.named import load_network

        if self.stopping_network is None:
            return None
        return load_network(self.stopping_network, self.stopping_weights, self.stopping_sha256)
