"""``python -m confu_demo train PART`` (corpus, target, ..., prompts).

Every command resumes from its checkpoint under ``--work`` (a folder that git ignores) and writes
the finished part with its model card under ``--out``. The defaults are what the shipped weights
were made with.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from confu_demo.data.vocabulary import make_tokenizer
from confu_demo.training.ablations import NAMES
from confu_demo.training.cards import language_model_card
from confu_demo.training.corpus import STREAMS, DocumentEncoder, make_shard, save_shard
from confu_demo.training.evaluation import score_judge, score_problems, synthetic_pairs
from confu_demo.training.head_commands import (
    ablations,
    compare,
    confu,
    eagle3,
    probe,
    prompts,
    publish,
    say,
)
from confu_demo.training.judge import (
    PairMaker,
    SecondRound,
    calibration_problems,
    load_or_make_pairs,
    second_round_settings,
    training_pairs,
)
from confu_demo.training.language_model import LanguageModel
from confu_demo.training.lm import LmSettings, LmTrainer
from confu_demo.training.model_files import load_language_model, save_language_model

TARGET = LmSettings(
    hidden_size=192,
    num_heads=6,
    intermediate_size=512,
    num_layers=4,
    total_tokens=9_200_000,
    grow_at=((0.52, 6),),
    decay_share=0.22,
    eval_every_tokens=1_000_000,
)
DRAFT = LmSettings(
    hidden_size=128, num_heads=4, intermediate_size=384, num_layers=3, total_tokens=8_000_000
)
JUDGE_TOKENS = {"target": 1_500_000, "draft": 1_500_000}
TARGET_BASE = replace(
    TARGET,
    hidden_size=384,
    num_heads=12,
    intermediate_size=1024,
    num_layers=12,
    grow_at=(),
    total_tokens=300_000_000,
    batch_tokens=32_000,
    eval_every_tokens=10_000_000,
)


PARTS = {
    "corpus": "make the tokenizer and write the training documents to disk",
    "target": "train the target model",
    "draft": "train the draft model",
    "judge": "train the models further on on-policy judge pairs",
    "eagle3": "train the EAGLE-3 head on the target's own outputs",
    "confu": "train the ConFu head, starting from the EAGLE-3 head",
    "ablations": "train ConFu's variants and controls, and print the table that compares them",
    "probe": "measure whether contemplate tokens know more of what comes than ordinary rows do",
    "compare": "score finished heads on the same held-out answers, with ConFu's controls",
    "answers": "publish the answers that a suite's heads learned from, as token ids",
    "prompts": "write the held-out free-text prompts of a suite, from its target's answers",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the parts as subcommands of ``train``."""
    parts = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, text in PARTS.items():
        parser = parts.add_parser(name, help=text, description=text)
        add = parser.add_argument
        add("--work", type=Path, default=Path("checkpoints"), metavar="DIR",
            help="checkpoints and logs (default: checkpoints)")  # fmt: skip
        add("--out", type=Path, default=Path("assets/models/bundled"), metavar="DIR",
            help="finished models (default: assets/models/bundled)")  # fmt: skip
        add("--device", default="cpu", help="cpu, cuda or mps (default: cpu)")
        add("--threads", type=int, default=None, help="CPU threads (default: all)")
        if name == "corpus":
            add("--shards", type=int, default=8, help="shards a stream (2,048 documents)")
        elif name in ("answers", "compare", "prompts"):
            parser.set_defaults(tokens=None, documents=0)
        else:
            add("--tokens", type=float, default=None, metavar="N",
                help="train on N tokens instead of the default")  # fmt: skip
        if name in ("target", "draft"):
            add("--note", default="", help="a sentence for the model card")
        if name == "target":
            add("--size", choices=("small", "base"), default="small",
                help="base: 12 layers x 384 for a GPU (default: small)")  # fmt: skip
        if name == "judge":
            add("--pairs", type=int, default=6000, help="on-policy problems (default: 6000)")
            add("--only", choices=("target", "draft"), default=None,
                help="train one of the two: heads fit only the target they saw")  # fmt: skip
        if name in ("eagle3", "confu", "ablations", "probe"):
            add("--documents", type=int, default=3000,
                help="own outputs of the target to train on (default: 3000)")  # fmt: skip
            add("--bfloat16", action="store_true",
                help="with --target: answer, contemplate and train in bfloat16, which is twice as "
                "fast where the machine multiplies in it")  # fmt: skip
        if name == "compare":
            parser.set_defaults(tokens=None, documents=64, bfloat16=False)
            add("--heads", required=True, metavar="NAME=DIR,...",
                help="the heads; the others are held against the first")  # fmt: skip
        if name in ("eagle3", "confu", "ablations", "probe", "compare", "prompts"):
            add("--target", type=Path, default=None, metavar="DIR",
                help="an instruct model with a chat template: train on its free-text answers "
                "(default: the suite's own target on word problems)")  # fmt: skip
        if name in ("ablations", "compare"):
            add("--json", type=Path, default=None, metavar="FILE", help="write the table there")
        if name == "ablations":
            add("--variants", default=None, metavar="NAMES",
                help=f"comma-separated (default: all): {', '.join(NAMES)}")  # fmt: skip
        if name == "confu":
            add("--continue-eagle3", action="store_true",
                help="the control instead: EAGLE-3 for the same extra tokens")  # fmt: skip
            add("--contemplation", type=Path, default=None, metavar="DIR",
                help="start with the [con] of this ConFu head: it foresees for any drafter of "
                "the same target")  # fmt: skip
            add("--foresight-share", type=float, default=None, metavar="SHARE",
                help="of the tokens, for what [con] foresees alone, before the drafter learns; 1: "
                "nothing else (default: 0.5 on free text, 0 on word problems)")  # fmt: skip
            add("--frozen-drafter", action="store_true",
                help="teach only what EAGLE-3 lacks ([con], soft prompts, mixtures, the future's "
                "weights): the drafter stays the EAGLE-3 head")  # fmt: skip
            add(
                "--soft-prompts",
                type=int,
                default=None,
                metavar="N",
                help="soft prompts before the text (default: 16)",
            )


def run(args: argparse.Namespace) -> int:
    if args.threads is not None:
        if args.threads < 1:
            raise ValueError(f"threads must be 1 or more, not {args.threads}")
        torch.set_num_threads(args.threads)
    tokens = getattr(args, "tokens", None)
    if tokens is not None and not 1 <= tokens <= 1e15:
        raise ValueError(f"tokens must be 1 to 1e15, not {tokens:g}")
    COMMANDS[args.part](args)
    return 0


def tokenizer_of(work: Path) -> PreTrainedTokenizerFast:
    folder = work / "tokenizer"
    if (folder / "tokenizer.json").is_file():
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    say("making the tokenizer")
    return make_tokenizer(folder)


def corpus(args: argparse.Namespace) -> None:
    encoder = DocumentEncoder(tokenizer_of(args.work))
    for stream in STREAMS:
        for index in range(args.shards):
            path = args.work / "corpus" / f"{stream}-{index:05d}.npz"
            if not path.is_file():
                save_shard(make_shard(encoder, stream, index), path)
        sample = make_shard(encoder, stream, 0)
        tokens = sum(len(document.token_ids) for document in sample)
        say(
            f"{stream}: {args.shards} shards of {len(sample)} documents, "
            f"{tokens / len(sample):.0f} tokens each"
        )


def _train(args: argparse.Namespace, name: str, settings: LmSettings) -> None:
    if args.tokens is not None:
        settings = replace(settings, total_tokens=int(args.tokens))
    trainer = LmTrainer(
        settings, tokenizer_of(args.work), args.work / name, args.work / "corpus",
        torch.device(args.device), say,
    )  # fmt: skip
    model = trainer.run().cpu()
    done = Finished(name, model, asdict(settings), trainer.history, note=args.note)
    finish(done, trainer.tokenizer, args.out)


@dataclass(frozen=True, slots=True)
class Finished:
    """A trained model with what its card tells. ``second`` describes the judge's second round."""

    name: str
    model: LanguageModel
    settings: dict[str, Any]
    history: list[dict[str, Any]]
    first_round: dict[str, Any] | None = None
    second: dict[str, Any] | None = None
    note: str = ""


def finish(done: Finished, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Scores a finished model on the held-out split and writes it with its card."""
    model, folder = done.model.eval(), out / done.name
    problems = score_problems(model, tokenizer, "heldout", 200)
    hard = score_problems(model, tokenizer, "hard", 100)
    verdicts = score_judge(model, tokenizer, synthetic_pairs(1000, "heldout"))
    figures = {"heldout": asdict(problems), "hard": asdict(hard), "judge": asdict(verdicts)}
    card = language_model_card(
        done.name, model, done.settings, figures, done.history, done.second, done.note
    )
    save_language_model(model, tokenizer, folder, card)
    record: dict[str, Any] = {
        "settings": done.settings,
        "figures": figures,
        "history": done.history,
        "note": done.note,
    }
    if done.second is not None:
        record |= {"second_round": done.second, "first_round": done.first_round}
    (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    say(f"{done.name}: held-out answers {problems.answers:.3f}, steps {problems.steps:.3f}")


def target(args: argparse.Namespace) -> None:
    _train(args, "target", TARGET_BASE if args.size == "base" else TARGET)


def draft(args: argparse.Namespace) -> None:
    _train(args, "draft", DRAFT)


def judge(args: argparse.Namespace) -> None:
    """On-policy pairs from the first round's models; then both go on from where they stood."""
    tokenizer = tokenizer_of(args.work)
    models = {name: load_language_model(args.out / name).eval() for name in ("target", "draft")}
    maker = PairMaker(models["target"], models["draft"], tokenizer, say)
    pairs = load_or_make_pairs(
        args.work / "on-policy-train.jsonl", lambda: training_pairs(maker, args.pairs, 0)
    )
    checks = load_or_make_pairs(
        args.work / "on-policy-calibration.jsonl",
        lambda: maker.pairs(calibration_problems(400), seed=1),
    )
    rounds = SecondRound(tokenizer, pairs, args.work, torch.device(args.device), say)
    for name, model in models.items():
        if args.only not in (None, name):
            continue
        before = json.loads((args.out / name / "training.json").read_text(encoding="utf-8"))
        first = before.get("first_round", before)
        say(f"{name} before: {score_judge(model, tokenizer, checks)}")
        tokens = int(args.tokens or JUDGE_TOKENS[name])
        settings = second_round_settings(first["settings"], model, tokens)
        trainer = rounds.run(name, model.train(), settings)
        assert trainer.model is not None
        score = score_judge(trainer.model.eval(), tokenizer, checks)
        say(f"{name} after:  {score}")
        history = first["history"] + [
            row | {"tokens": row["tokens"] + first["history"][-1]["tokens"]}
            for row in trainer.history
        ]
        extra = {"on_policy": asdict(score), "pairs": len(pairs), "tokens": tokens}
        note = first.get("note", "")
        out = Finished(name, trainer.model, first["settings"], history, first, extra, note)
        finish(out, tokenizer, args.out)


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "corpus": corpus,
    "target": target,
    "draft": draft,
    "judge": judge,
    "eagle3": eagle3,
    "confu": confu,
    "ablations": ablations,
    "probe": probe,
    "compare": compare,
    "answers": publish,
    "prompts": prompts,
}
