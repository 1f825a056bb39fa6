"""The ConFu head: an EAGLE-3 head that also reads the target's future prediction f.

Owns the weights of ConFu (arXiv 2603.08899) beside the EAGLE-3 head: soft prompts, the mixture
that makes the contemplate token [con], the mixture that makes the future token, and the maths of
the future token's key/value column. Knows no cache, no tree and no target.

[P] marks the paper, [O] our choice: f enters the drafter as one extra token [P], which in a
one-layer drafter is exactly one more key/value column [O]; f is the three-layer feature of [con]
through EAGLE-3's own fusion [O].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from confu_demo.heads.eagle import EagleConfig, EagleHead
from confu_demo.heads.expert_mixture import ExpertMixture
from confu_demo.heads.hub import HubHead
from confu_demo.heads.soft_prompt import SoftPrompt

MAX_FORESIGHT_DEPTHS = 16
INITIAL_FUTURE_BIAS = -6.0
"""exp(-6) of an ordinary column's weight: f is off in effect when training starts [O]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfuHeadConfig:
    """Sizes of ConFu's own parts; ``eagle`` is the head below them."""

    eagle: EagleConfig
    num_soft_prompts: int = 16  # [P]
    num_experts: int = 8  # [O]
    experts_per_token: int = 2  # [O]
    foresight_depths: int = 0  # [O]; 0 is the paper's head
    future_worth: float | None = None  # [O]; share of the acceptance length that f added, held out

    def __post_init__(self) -> None:
        if not 0 <= self.foresight_depths <= MAX_FORESIGHT_DEPTHS:
            raise ValueError(
                f"foresight_depths must be 0 to {MAX_FORESIGHT_DEPTHS}, not {self.foresight_depths}"
            )
        if self.num_soft_prompts < 0:
            raise ValueError(f"num_soft_prompts must be 0 or more, not {self.num_soft_prompts}")
        if not 1 <= self.experts_per_token <= self.num_experts:
            raise ValueError(
                f"experts_per_token must be 1 to {self.num_experts}, not {self.experts_per_token}"
            )


class ConfuHead(nn.Module, HubHead, tags=["confu"]):
    """``con_mixture`` reads the concatenated target features of the last accepted token and
    makes [con] in the target's embedding space; ``future_mixture`` reads the fused feature of
    the last accepted token (what enters the draft layer [O]) and makes the future token's
    embedding. ``future_bias`` is added to the attention score of the future column [O].

    ``foresight_weights`` [n] are a second way in for f, ours alone [O]: what the target's own
    norm and output head read off [con]'s last state, on the draft vocabulary, is added to the
    draft's logits. The [con] after x_a foresees x_{a+2}; weight k is for the token k places after
    that one, and later tokens get nothing. ``foresight_maps`` are n matrices that turn the normed
    state towards each of these tokens, zero at first (a residual, as Medusa's heads are). None
    and empty without them: the paper's head."""

    foresight_weights: nn.Parameter | None

    _paper = "https://arxiv.org/abs/2603.08899"

    def __init__(self, config: ConfuHeadConfig) -> None:
        super().__init__()
        self.config = config
        eagle = config.eagle
        self.eagle = EagleHead(eagle)
        self.soft_prompt = SoftPrompt(config.num_soft_prompts, eagle.target_hidden_size)
        sizes = {"num_experts": config.num_experts, "top_k": config.experts_per_token}
        self.con_mixture = ExpertMixture(eagle.feature_size, eagle.target_hidden_size, **sizes)
        self.future_mixture = ExpertMixture(eagle.hidden_size, eagle.hidden_size, **sizes)
        self.future_bias = nn.Parameter(torch.tensor(INITIAL_FUTURE_BIAS))
        depths = config.foresight_depths
        weights = nn.Parameter(torch.zeros(depths)) if depths else None
        self.register_parameter("foresight_weights", weights)
        width = eagle.target_hidden_size
        self.foresight_maps = nn.ModuleList(
            nn.Linear(width, width, bias=False) for _ in range(depths)
        )
        for linear in self.foresight_maps:
            nn.init.zeros_(linear.weight)  # type: ignore[arg-type]

    @classmethod
    def from_eagle(cls, eagle: EagleHead, config: ConfuHeadConfig) -> ConfuHead:
        """A ConFu head whose drafter starts as a copy of a trained EAGLE-3 head [P]."""
        head = cls(config)
        head.eagle.load_state_dict(eagle.state_dict())
        return head

    def foreseen_states(self, normed: Tensor) -> Tensor:
        """[con]'s last state after the target's final norm [.., D_t] -> [.., n, D_t], what the
        target's output head reads for the tokens 0..n-1 places after the next but one [O]; n is 1
        in a head without foresight."""
        if not len(self.foresight_maps):
            return normed.unsqueeze(-2)
        return torch.stack([normed + turn(normed) for turn in self.foresight_maps], dim=-2)

    def future_column(
        self,
        con_features: Tensor,
        fused_last: Tensor,
        positions: Tensor,
        *,
        uniform: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Rotated key and value of the future token: k, v [.., H_kv, 1, hd].

        ``con_features`` [.., 3*D_t]: target features of [con]; zeros give f = 0.
        ``fused_last`` [.., D]: fused feature of the last accepted token. ``positions``
        Long[..]: the position of [con]. ``uniform`` switches the mixture off.
        """
        embedding, _ = self.future_mixture(fused_last, uniform=uniform)
        return self.column(self.eagle.fuse(con_features), embedding, positions)

    def column(self, future: Tensor, embedding: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The column from f [.., D] and the future token's embedding [.., D]; see above."""
        _, k, v = self.eagle.project(
            embedding.unsqueeze(-2), future.unsqueeze(-2), positions.unsqueeze(-1)
        )
        return k, v
