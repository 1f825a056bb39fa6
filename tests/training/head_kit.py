"""Tiny random targets, heads and documents for the tests of head training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from confu_demo.engine.model_config import ModelConfig
from confu_demo.engine.target import LeanModel
from confu_demo.heads.confu import ConfuHead, ConfuHeadConfig
from confu_demo.heads.eagle import EagleConfig, EagleHead
from confu_demo.training.head_batches import HeadBatch, collate
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.own_outputs import OwnOutput

VOCAB_SIZE = 23
LAYERS = (1, 2, 3)
CPU = torch.device("cpu")


def tiny_target(seed: int = 0, dtype: torch.dtype = torch.float64) -> LanguageModel:
    """4 layers x 32, 4 query and 2 key/value heads, Qwen3 shapes, frozen."""
    torch.manual_seed(seed)
    model = LanguageModel(tiny_config()).to(dtype)
    return model.eval().requires_grad_(False)


def tiny_config() -> ModelConfig:
    return ModelConfig(
        family="qwen3",
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        intermediate_size=48,
        num_layers=4,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        rope_scaling=None,
        max_positions=96,
        tie_embeddings=False,
        attention_bias=False,
        qk_norm=True,
    )


def lean_twin(target: LanguageModel) -> LeanModel:
    """The engine's model with the same weights."""
    dtype = target.model.norm.weight.dtype
    return LeanModel(target.config, target.state_dict(), dtype=dtype)


def eagle_config(draft_vocab_size: int = 17) -> EagleConfig:
    return EagleConfig(
        hidden_size=32,
        intermediate_size=40,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=96,
        target_hidden_size=32,
        target_vocab_size=VOCAB_SIZE,
        draft_vocab_size=draft_vocab_size,
        feature_layers=LAYERS,
        target_sha256="",
    )


def random_eagle(
    seed: int = 0, dtype: torch.dtype = torch.float64, draft_vocab_size: int = 17
) -> EagleHead:
    torch.manual_seed(seed)
    head = EagleHead(eagle_config(draft_vocab_size))
    head.set_draft_vocabulary(torch.randperm(VOCAB_SIZE)[:draft_vocab_size].sort().values)
    return head.to(dtype)


def random_confu(seed: int = 0, dtype: torch.dtype = torch.float64) -> ConfuHead:
    """Everything random and large enough to matter; the future column weighs like any other."""
    eagle = random_eagle(seed, dtype)
    config = ConfuHeadConfig(
        eagle=eagle.config, num_soft_prompts=3, num_experts=4, foresight_depths=3
    )
    head = ConfuHead.from_eagle(eagle, config).to(dtype)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if not name.startswith("eagle."):
                parameter.copy_(torch.randn_like(parameter) * 0.5)
        head.future_bias.fill_(0.3)
    return head


def document(length: int, num_prompt: int, seed: int = 0) -> OwnOutput:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, VOCAB_SIZE, size=length).astype(np.int32)
    return OwnOutput(ids, num_prompt, 0.0)


def batch_of(token_ids: Sequence[Sequence[int]], num_prompt: Sequence[int]) -> HeadBatch:
    documents = [
        OwnOutput(np.array(ids, dtype=np.int32), num, 0.0)
        for ids, num in zip(token_ids, num_prompt, strict=True)
    ]
    return collate(documents, CPU)


def random_batch(shapes: Sequence[tuple[int, int]], seed: int = 0) -> HeadBatch:
    """``shapes``: (length, num_prompt) of every document."""
    return collate([document(*shape, seed + i) for i, shape in enumerate(shapes)], CPU)
