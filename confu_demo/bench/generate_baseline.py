"""The plain loop beside ``generate`` of transformers: the same weights, device, dtype, threads.

Everybody's speedup is measured against our plain loop, so a reader must be able to see that the
loop is no straw man. Both are greedy and both are timed from the prompt to the last token.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from confu_demo.bench.measure import race_once
from confu_demo.config import DecodeConfig, SamplingConfig
from confu_demo.data.prompts import find_prompt
from confu_demo.decoding.base import DecodeRequest
from confu_demo.engine.loading import synchronise
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.metrics import quartiles
from confu_demo.race_report import BASELINE

ROUNDS = 3
LOOKUP_TOKENS = 10
"""What transformers' documentation uses for ``prompt_lookup_num_tokens``."""


class GenerateBaseline:
    """transformers' own model of a suite's target, with ``generate`` set up as a user would."""

    def __init__(self, suite: LoadedSuite) -> None:
        # Seconds to import, and only needed here.
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()  # stderr is for what is wrong
        target = suite.target
        self._device = target.model.device
        self._synchronise = synchronise(self._device)
        self._eos_ids = sorted(target.eos_ids)
        loaded = AutoModelForCausalLM.from_pretrained(
            suite.suite.folder_of("target"), dtype=target.model.dtype, local_files_only=True
        )
        self._model: Any = loaded.to(self._device).eval()

    def run(
        self, request: DecodeRequest, max_new_tokens: int, *, prompt_lookup: bool = False
    ) -> tuple[tuple[int, ...], float]:
        """(new token ids, milliseconds of the whole call); ``prompt_lookup``: with transformers'
        own prompt lookup."""
        extra = {"prompt_lookup_num_tokens": LOOKUP_TOKENS} if prompt_lookup else {}
        prompt = torch.tensor([request.token_ids], device=self._device)
        self._synchronise()
        begin = time.perf_counter()
        with torch.inference_mode():
            output = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                use_cache=True,
                eos_token_id=self._eos_ids or None,
                pad_token_id=self._eos_ids[0] if self._eos_ids else 0,
                **extra,
            )
        self._synchronise()
        elapsed_ms = (time.perf_counter() - begin) * 1e3
        return tuple(output[0, prompt.shape[1] :].tolist()), elapsed_ms


def measure_generate(
    suite: LoadedSuite, split: str, indices: Iterable[int], config: DecodeConfig
) -> dict[str, Any]:
    """``ratio`` is the median over problems of generate's time per token / the plain loop's."""
    greedy = replace(config, sampling=SamplingConfig())
    baseline = GenerateBaseline(suite)
    ours: list[float] = []
    theirs: list[float] = []
    with_lookup: list[float] = []
    same = 0
    for index in indices:
        request = suite.request(find_prompt(suite.suite.name, split, index).text)
        fitting = suite.fit(greedy, request, [BASELINE], may_shorten=True)
        if not ours:
            for lookup in (False, True):  # first-call costs
                baseline.run(request, min(8, fitting.max_new_tokens), prompt_lookup=lookup)
        plain_times, generate_times, lookup_times = [], [], []
        for _ in range(ROUNDS):
            plain = race_once(suite, [BASELINE], request, fitting)[BASELINE].metrics
            token_ids, elapsed_ms = baseline.run(request, fitting.max_new_tokens)
            plain_times.append(plain.total_ms / plain.num_tokens)
            generate_times.append(elapsed_ms / len(token_ids))
            looked_up, elapsed_ms = baseline.run(
                request, fitting.max_new_tokens, prompt_lookup=True
            )
            lookup_times.append(elapsed_ms / len(looked_up))
        ours.append(statistics.median(plain_times))
        theirs.append(statistics.median(generate_times))
        with_lookup.append(statistics.median(lookup_times))
        same += plain.token_ids == token_ids
    spread = quartiles([their / our for their, our in zip(theirs, ours, strict=True)])
    return {
        "problems": len(ours),
        "plain_ms_per_token": statistics.median(ours) if ours else None,
        "generate_ms_per_token": statistics.median(theirs) if theirs else None,
        "generate_prompt_lookup_ms_per_token": (
            statistics.median(with_lookup) if with_lookup else None
        ),
        "ratio": spread[1] if spread else None,
        "ratio_quartiles": [spread[0], spread[2]] if spread else None,
        "same_tokens": same,
    }


def generate_line(found: dict[str, Any]) -> str:
    """What was found, in one line."""
    return (
        f"plain loop {found['plain_ms_per_token']:.2f} ms a token, transformers generate "
        f"{found['generate_ms_per_token']:.2f} ms, with its prompt lookup "
        f"{found['generate_prompt_lookup_ms_per_token']:.2f} ms (prefill included): the plain "
        f"loop is {found['ratio']:.2f}x as fast; same tokens on {found['same_tokens']} of "
        f"{found['problems']} problems"
    )
