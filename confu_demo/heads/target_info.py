"""What a draft head must fit: the target's hidden size, vocabulary, layers and weights.

Owns the comparison and its wording. Knows no files.
"""

from __future__ import annotations

from dataclasses import dataclass

from confu_demo.engine.errors import UnsupportedModel
from confu_demo.engine.model_config import ModelConfig
from confu_demo.heads.eagle import EagleConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInfo:
    """What a head must fit. ``sha256`` "" means unknown and is not compared."""

    hidden_size: int
    vocab_size: int
    num_layers: int
    sha256: str = ""

    @classmethod
    def of(cls, config: ModelConfig, sha256: str = "") -> TargetInfo:
        return cls(
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            num_layers=config.num_layers,
            sha256=sha256,
        )


def refuse_misfit(place: object, config: EagleConfig, target: TargetInfo) -> None:
    """Raises :class:`UnsupportedModel` with the reason if the head at ``place`` is another
    target's."""
    reason = ""
    if config.target_hidden_size != target.hidden_size:
        reason = f"hidden size {config.target_hidden_size}, the target has {target.hidden_size}"
    elif config.target_vocab_size != target.vocab_size:
        reason = f"vocabulary {config.target_vocab_size}, the target has {target.vocab_size}"
    elif config.feature_layers[0] < 0 or config.feature_layers[-1] >= target.num_layers:
        reason = f"feature layers {config.feature_layers}, the target has {target.num_layers}"
    elif config.target_sha256 and target.sha256 and config.target_sha256 != target.sha256:
        reason = (
            f"weights {config.target_sha256[:12]}..., the target is {target.sha256[:12]}...: "
            "train the head again for these weights"
        )
    if reason:
        raise UnsupportedModel(f"the head in {place} is for another target: {reason}")
