"""What a language model starts from: initial embeddings, added layers, optimisers.

``grow_layers`` deepens a model without changing what it computes: copies are spread evenly and
their output projections zeroed, so training goes on where it was (our choice; a shallow start
costs half the time a token).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from transformers import PreTrainedTokenizerFast

from confu_demo.training.language_model import LanguageModel
from confu_demo.training.muon import Muon


def share_digit_embeddings(model: LanguageModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Starts `` 7`` (first digit of a number) near ``7`` (later digit): one fact, not two."""
    weight = model.model.embed_tokens.weight.data
    for digit in "0123456789":
        inner, leading = (
            tokenizer(text, add_special_tokens=False)["input_ids"] for text in (digit, f" {digit}")
        )
        if len(leading) == 1:  # a tokenizer of few texts may not have met " 0"
            weight[leading] = 0.8 * weight[inner] + 0.6 * weight[leading]


def grow_layers(model: LanguageModel, num_layers: int) -> LanguageModel:
    """The same function with more layers: copies are spread evenly and their outputs zeroed."""
    old = model.config.num_layers
    if num_layers < old:
        raise ValueError(f"a model of {old} layers cannot be grown to {num_layers}")
    grown = LanguageModel(replace(model.config, num_layers=num_layers))
    state = {k: v for k, v in model.state_dict().items() if ".layers." not in k}
    sources = [index * old // num_layers for index in range(num_layers)]
    for index, source in enumerate(sources):
        is_copy = index > 0 and sources[index - 1] == source
        for key, value in model.model.layers[source].state_dict().items():
            zeroed = is_copy and key in ("self_attn.o_proj.weight", "mlp.down_proj.weight")
            state[f"model.layers.{index}.{key}"] = (
                torch.zeros_like(value) if zeroed else value.clone()
            )
    grown.load_state_dict(state)
    return grown


def make_optimisers(
    model: LanguageModel, *, muon_rate: float, adam_rate: float
) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for embeddings, output head and norms."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and ".layers." in n]
    others = [p for n, p in model.named_parameters() if not (p.dim() == 2 and ".layers." in n)]
    muon = Muon(matrices, lr=muon_rate)
    adam = torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.98), weight_decay=0.0)
    for optimiser, rate in ((muon, muon_rate), (adam, adam_rate)):
        for group in optimiser.param_groups:
            group["base_rate"] = rate
    return [muon, adam]
