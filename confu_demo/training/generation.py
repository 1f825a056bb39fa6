"""Batched generation with the differentiable twin: held-out evaluation and the heads' data.

Prompts of different lengths are padded on the left; rows that ended are dropped, so the batch
shrinks. Greedy or sampled. For training only: the race uses the engine.
"""

from __future__ import annotations

import torch
from torch import Tensor

from confu_demo.training.language_model import KeyValue, LanguageModel


@torch.no_grad()
def generate_batch(
    model: LanguageModel,
    prompts: list[list[int]],
    *,
    max_new_tokens: int,
    eos_id: int,
    extra_stop_ids: tuple[int, ...] = (),
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Token ids that follow each prompt, up to and including EOS or another stop token."""
    device = model.model.norm.weight.device
    width = max(map(len, prompts))
    ids = torch.zeros(len(prompts), width, dtype=torch.long, device=device)
    valid = torch.zeros(len(prompts), width, dtype=torch.bool, device=device)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        valid[row, width - len(prompt) :] = True
    positions = (valid.cumsum(1) - 1).clamp(min=0)
    # A padded row may attend to itself, so that no softmax is empty; nobody else sees it.
    causal = torch.ones(width, width, dtype=torch.bool, device=device).tril()
    mask = (causal & valid[:, None, :]) | torch.eye(width, dtype=torch.bool, device=device)
    output = model(model.embed(ids), positions, mask)
    past, last = output.keys_values, output.hidden[:, -1]
    position = positions[:, -1] + 1
    stops = torch.tensor([eos_id, *extra_stop_ids], device=device)
    results: list[list[int]] = [[] for _ in prompts]
    rows = torch.arange(len(prompts), device=device)
    for _ in range(max_new_tokens):
        token = _choose(model.lm_head_logits(last), temperature, generator)
        for row, value in zip(rows.tolist(), token.tolist(), strict=True):
            results[row].append(value)
        alive = ~torch.isin(token, stops)
        if not alive.any():
            break
        if not alive.all():
            rows, token, valid, position = rows[alive], token[alive], valid[alive], position[alive]
            past = [(k[alive], v[alive]) for k, v in past]
        valid = torch.cat((valid, torch.ones(len(rows), 1, dtype=torch.bool, device=device)), dim=1)
        output = model(model.embed(token[:, None]), position[:, None], valid[:, None, :], past)
        past = _extend(past, output.keys_values)
        last, position = output.hidden[:, -1], position + 1
    return results


def _extend(past: list[KeyValue], new: list[KeyValue]) -> list[KeyValue]:
    return [
        (torch.cat((k, nk), dim=2), torch.cat((v, nv), dim=2))
        for (k, v), (nk, nv) in zip(past, new, strict=True)
    ]


def _choose(logits: Tensor, temperature: float, generator: torch.Generator | None) -> Tensor:
    if temperature == 0.0:
        return logits.argmax(dim=-1)
    probs = torch.softmax(logits.float() / temperature, dim=-1)
    return torch.multinomial(probs, 1, generator=generator)[:, 0]
