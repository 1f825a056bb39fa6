"""Small random heads for the tests of this folder."""

from __future__ import annotations

import torch

from confu_demo.heads.checkpoint import TargetInfo
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleConfig, EagleHead

CONFIG = EagleConfig(
    hidden_size=16,
    intermediate_size=24,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    rms_norm_eps=1e-5,
    rope_theta=500.0,
    max_positions=64,
    target_hidden_size=16,
    target_vocab_size=30,
    draft_vocab_size=12,
    feature_layers=(1, 3, 5),
    target_sha256="abc",
)
TARGET = TargetInfo(hidden_size=16, vocab_size=30, num_layers=8, sha256="abc")


def eagle(seed: int = 0) -> EagleHead:
    torch.manual_seed(seed)
    head = EagleHead(CONFIG)
    head.set_draft_vocabulary(torch.randperm(30)[:12].sort().values)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if name.endswith("norm.weight"):
                parameter.add_(torch.randn(parameter.shape) * 0.2)
    return head


def confu(seed: int = 0) -> ConfuHead:
    torch.manual_seed(seed)
    config = ConfuHeadConfig(eagle=CONFIG, num_soft_prompts=3, num_experts=5, experts_per_token=2)
    return ConfuHead.from_eagle(eagle(seed), config)
