"""The target's own completions: the only text that a draft head should learn from.

A head predicts what its target will say, so off-policy text teaches it the wrong thing (SpecForge
#128: good training accuracy, acceptance length 1.9). Prompts are fresh problems with seeds of
their own; most completions are greedy, some sampled, so that the head also sees what follows an
unlikely token [our choice].

A folder of shards. Shard i is one batch, a pure function of the settings, the target's weights
and i, so a broken run goes on where it stopped and a longer one keeps what is there.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from confu_demo.data.documents import prompt_text
from confu_demo.data.splits import problem, training_problem
from confu_demo.training.generation import generate_batch
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.records import DocumentRecord


@dataclass(frozen=True, slots=True)
class OwnOutput:
    """BOS, prompt and completion; EOS last unless the completion hit its limit."""

    token_ids: NDArray[np.int32]  # [n]
    num_prompt: int
    temperature: float
    record: DocumentRecord | None = None  # what the target thought, where it was kept


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOutputSettings:
    """``sampled_share`` of the batches are sampled at a temperature drawn between the two; the
    others are greedy. Steps matter to the ``train`` split alone; the others are held out."""

    split: Literal["train", "calibration", "heldout"] = "train"
    num_documents: int = 3000  # rounded up to whole batches
    min_steps: int = 4
    max_steps: int = 9
    sampled_share: float = 0.25
    min_temperature: float = 0.7
    max_temperature: float = 1.0
    max_new_tokens: int = 400
    batch_size: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_documents < 1 or self.batch_size < 1 or self.max_new_tokens < 1:
            raise ValueError("own outputs need at least one document, one a batch, one new token")
        if not 0.0 <= self.sampled_share <= 1.0:
            raise ValueError(f"sampled share must be 0 to 1, not {self.sampled_share}")
        if not 0.0 < self.min_temperature <= self.max_temperature:
            raise ValueError("temperatures must be above 0, the lower one first")

    @property
    def num_shards(self) -> int:
        return -(-self.num_documents // self.batch_size)

    def temperature(self, shard: int) -> float:
        """0 for greedy. Sampled shards are spread evenly; a shard's temperature is its own."""
        before, after = (math.floor(n * self.sampled_share + 1e-9) for n in (shard, shard + 1))
        if before == after:
            return 0.0
        rng = random.Random(f"temperature:{self.seed}:{shard}")
        return rng.uniform(self.min_temperature, self.max_temperature)

    def questions(self, shard: int) -> list[str]:
        first = shard * self.batch_size
        if self.split != "train":
            return [problem(self.split, first + row).text for row in range(self.batch_size)]
        rng = random.Random(f"own outputs:{self.seed}:{shard}")
        return [
            training_problem(rng, min_steps=self.min_steps, max_steps=self.max_steps).text
            for _ in range(self.batch_size)
        ]


def held_out_settings(
    split: Literal["calibration", "heldout"], num_documents: int, max_new_tokens: int = 400
) -> OwnOutputSettings:
    """Greedy completions of the first problems of a split, for evaluation."""
    return OwnOutputSettings(
        split=split,
        num_documents=num_documents,
        max_new_tokens=max_new_tokens,
        sampled_share=0.0,
        batch_size=16,
    )


def weights_sha256(model: torch.nn.Module) -> str:
    """Hex sha256 over parameter names and float32 values."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def make_own_outputs(
    target: LanguageModel,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    settings: OwnOutputSettings,
    say: Callable[[str], None],
    max_seconds: float | None = None,
) -> list[OwnOutput]:
    """Makes the shards that ``folder`` lacks and returns all of its documents.

    ``max_seconds`` ends early, after at least one shard. ValueError if the folder holds outputs
    of another target or of other settings.
    """
    wanted = asdict(settings) | {"target_sha256": weights_sha256(target)}
    del wanted["num_documents"]  # a longer run keeps what is there
    claim(folder, wanted)
    started, made, shards_made = time.monotonic(), 0, 0
    for shard in range(settings.num_shards):
        path = _shard_path(folder, shard)
        if path.is_file():
            continue
        spent = time.monotonic() - started
        if max_seconds is not None and spent > max_seconds and _shard_path(folder, 0).is_file():
            say(f"own outputs: stopped after {spent:.0f} s at {shard} of {settings.num_shards}")
            break
        documents = _complete(target, tokenizer, settings, shard)
        save_shard(documents, path)
        made += sum(len(document.token_ids) - document.num_prompt for document in documents)
        shards_made += 1
        elapsed = time.monotonic() - started
        left = (settings.num_shards - shard - 1) * elapsed / shards_made
        say(
            f"own outputs: {shard + 1}/{settings.num_shards} shards of {settings.batch_size}  "
            f"{made / elapsed:.0f} new tokens/s  left {left / 60:.1f} min"
        )
    return load_own_outputs(folder, settings)


def load_own_outputs(folder: Path, settings: OwnOutputSettings | None = None) -> list[OwnOutput]:
    """All documents of a folder in order, or those of ``settings`` alone. FileNotFoundError if
    there is none."""
    paths = sorted(Path(folder).glob("shard-*.npz"))
    if settings is not None:
        paths = paths[: settings.num_shards]
    if not paths:
        raise FileNotFoundError(f"there are no own outputs in {folder}")
    return [document for path in paths for document in load_shard(path)]


def save_shard(documents: list[OwnOutput], path: Path) -> None:
    temporary = path.with_name(path.name + ".part.npz")
    np.savez_compressed(
        temporary,
        lengths=np.array([len(document.token_ids) for document in documents], dtype=np.int32),
        num_prompt=np.array([document.num_prompt for document in documents], dtype=np.int32),
        temperature=np.array([document.temperature for document in documents]),
        token_ids=np.concatenate([document.token_ids for document in documents]),
    )
    temporary.replace(path)


def load_shard(path: Path) -> list[OwnOutput]:
    with np.load(path) as data:
        ids = np.split(data["token_ids"], np.cumsum(data["lengths"])[:-1])
        rows = zip(ids, data["num_prompt"].tolist(), data["temperature"].tolist(), strict=True)
        return [OwnOutput(*row) for row in rows]


def _complete(
    target: LanguageModel,
    tokenizer: PreTrainedTokenizerFast,
    settings: OwnOutputSettings,
    shard: int,
) -> list[OwnOutput]:
    texts = [prompt_text(question) for question in settings.questions(shard)]
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    prompts = [[tokenizer.bos_token_id, *ids] for ids in encoded]
    temperature = settings.temperature(shard)
    device = target.model.norm.weight.device
    generator = torch.Generator(device).manual_seed(settings.seed * 1_000_003 + shard)
    outputs = generate_batch(
        target,
        prompts,
        max_new_tokens=settings.max_new_tokens,
        eos_id=tokenizer.eos_token_id,
        temperature=temperature,
        generator=generator,
    )
    return [
        OwnOutput(np.array([*prompt, *output], dtype=np.int32), len(prompt), temperature)
        for prompt, output in zip(prompts, outputs, strict=True)
    ]


def _shard_path(folder: Path, shard: int) -> Path:
    return folder / f"shard-{shard:05d}.npz"


def claim(folder: Path, wanted: dict[str, Any]) -> None:
    """Writes down whose outputs these are (JSON values), or refuses a folder that is somebody
    else's with a ValueError."""
    path = folder / "own_outputs.json"
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        changed = sorted(key for key in wanted if found.get(key) != wanted[key])
        if changed:
            raise ValueError(
                f"{folder} holds own outputs made with another {', '.join(changed)}; "
                "remove it or choose another folder"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
