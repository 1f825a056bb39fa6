"""What both head trainings read and write: target and own outputs in, head and card out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from confu_demo.data.free_text import Split
from confu_demo.engine.model_config import default_feature_layers
from confu_demo.heads.checkpoint import save_head
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.training.chat_outputs import (
    ChatDocument,
    ChatOutputs,
    ChatSettings,
    load_chat_outputs,
)
from confu_demo.training.head_card import head_card
from confu_demo.training.head_trainer import HeadSettings, HeadTrainer
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.model_files import load_language_model
from confu_demo.training.own_outputs import (
    OwnOutput,
    OwnOutputSettings,
    held_out_settings,
    make_own_outputs,
)
from confu_demo.training.published_answers import ANSWERS

SPLITS: tuple[Split, ...] = ("train", "calibration", "heldout")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadJob:
    """``target``: a model folder with its tokenizer. ``outputs``: own outputs, made if missing.
    ``work``: checkpoint and history. ``out``: the finished head. ``command``: how to repeat it,
    for the card."""

    target: Path
    outputs: Path
    work: Path
    out: Path
    device: str = "cpu"
    own_outputs: OwnOutputSettings = field(default_factory=OwnOutputSettings)
    outputs_max_seconds: float | None = None
    heldout_documents: int = 96
    command: str = "python -m confu_demo train"
    chat: ChatSettings | None = None  # free-text answers of an instruct model, with records
    suite: str = "bundled"
    dtype: torch.dtype | None = None  # of the saved weights


@dataclass(frozen=True, slots=True)
class Material:
    target: LanguageModel  # frozen, on the job's device
    target_sha256: str  # of its files
    train: list[OwnOutput]
    calibration: list[OwnOutput]  # for evaluations on the way
    heldout: list[OwnOutput]  # for the card
    heldout_categories: list[str] = field(default_factory=list)

    def report(self, trainer: HeadTrainer, final: dict[str, Any]) -> dict[str, Any]:
        """Everything measured, for the card and ``training.json``."""
        completions = sum(len(d.token_ids) - d.num_prompt for d in self.train)
        return {
            "heldout": final,
            "history": trainer.history,
            "tokens": trainer.tokens,
            "steps": trainer.step,
            "seconds": round(trainer.seconds, 1),
            "documents": len(self.train),
            "completion_tokens": completions,
            "sampled_documents": sum(d.temperature > 0 for d in self.train),
            "heldout_documents": len(self.heldout),
            "calibration_documents": len(self.calibration),
        }


def load_material(job: HeadJob, settings: HeadSettings, say: Callable[[str], None]) -> Material:
    from confu_demo.engine.loading import sha256_of_folder

    target = load_language_model(job.target).eval().requires_grad_(False).to(job.device)
    tokenizer = AutoTokenizer.from_pretrained(job.target, local_files_only=True)
    if job.chat is not None:
        return _chat_material(job, target, tokenizer, settings, say)
    longest = job.own_outputs.max_new_tokens
    wanted = {
        "train": job.own_outputs,
        "calibration": held_out_settings("calibration", settings.eval_documents, longest),
        "heldout": held_out_settings("heldout", job.heldout_documents, longest),
    }
    documents = {
        name: make_own_outputs(
            target, tokenizer, job.outputs / name, outputs, say,
            job.outputs_max_seconds if name == "train" else None,
        )
        for name, outputs in wanted.items()
    }  # fmt: skip
    return Material(
        target=target,
        target_sha256=sha256_of_folder(job.target),
        train=documents["train"],
        calibration=documents["calibration"],
        heldout=documents["heldout"],
    )


def chat_answers(
    job: HeadJob,
    split: Split,
    eval_documents: int,
    target: LanguageModel,
    tokenizer: Any,
    say: Callable[[str], None],
) -> list[ChatDocument]:
    """The target's answers to the prompts of a split, made if missing: as ``job.chat`` has them
    for training, greedy for ``eval_documents`` of calibration and the job's held-out ones.

    ValueError for a job without such answers.
    """
    if job.chat is None:
        raise ValueError("this job has no free-text answers: name an instruct model with --target")
    outputs = job.chat
    if split != "train":
        count = eval_documents if split == "calibration" else job.heldout_documents
        outputs = replace(outputs, greedy_share=1.0, split=split, num_documents=count)
    folder = job.outputs / f"{split}-{outputs.seed}"
    layers = default_feature_layers(target.config.num_layers)
    published = ANSWERS / job.suite / f"{folder.name}.npz"
    maker = ChatOutputs(target, tokenizer, folder, outputs, layers, say, published)
    maker.run(job.outputs_max_seconds if split == "train" else None)
    return load_chat_outputs(folder, outputs)


def _chat_material(
    job: HeadJob,
    target: LanguageModel,
    tokenizer: Any,
    settings: HeadSettings,
    say: Callable[[str], None],
) -> Material:
    from confu_demo.engine.loading import sha256_of_folder

    found = {
        split: chat_answers(job, split, settings.eval_documents, target, tokenizer, say)
        for split in SPLITS
    }
    documents = {split: [d.output for d in chats] for split, chats in found.items()}
    categories = [document.category for document in found["heldout"]]
    return Material(
        target, sha256_of_folder(job.target), **documents, heldout_categories=categories
    )


def publish(
    job: HeadJob,
    head: EagleHead | ConfuHead,
    name: str,
    settings: dict[str, Any],
    report: dict[str, Any],
) -> Path:
    """Writes the head, its card (README.md) and ``training.json`` into ``job.out``."""
    scores = {
        name: {key: value for key, value in score.items() if key != "documents"}
        for name, score in report["heldout"].items()
    }
    figures = {"heldout": scores, "tokens": report["tokens"]}
    save_head(job.out, head.to("cpu"), figures, dtype=job.dtype)
    parameters = sum(parameter.numel() for parameter in head.parameters())
    dtype = str(job.dtype or torch.float32).removeprefix("torch.")
    card = head_card(name, parameters, settings, report, job.command, job.device, job.suite, dtype)
    (job.out / "README.md").write_text(card, encoding="utf-8")
    record = {"settings": settings, **report}
    (job.out / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return job.out
