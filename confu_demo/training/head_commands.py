"""What ``train eagle3``, ``confu``, ``ablations``, ``probe`` and ``prompts`` do with arguments.

Owns the settings that the shipped heads were made with, on word problems and on free text. The
arguments themselves are declared in :mod:`confu_demo.training.commands`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import Any, Literal

import torch
from transformers import AutoTokenizer

from confu_demo.data.prompts import PROMPTS
from confu_demo.provenance import collect
from confu_demo.training.ablations import NAMES, run_ablations
from confu_demo.training.chat_outputs import ChatSettings
from confu_demo.training.confu import ConfuSettings, train_confu
from confu_demo.training.eagle3 import EagleSettings, train_eagle3
from confu_demo.training.foresight_probe import ProbeSettings, run_probe
from confu_demo.training.head_comparison import compare_heads, parse_heads, write_comparison
from confu_demo.training.head_job import SPLITS, HeadJob
from confu_demo.training.head_trainer import HeadSettings
from confu_demo.training.heldout_prompts import make_prompts
from confu_demo.training.own_outputs import OwnOutputSettings
from confu_demo.training.published_answers import ANSWERS, publish_answers

CHAT_TRAINING = HeadSettings(
    total_tokens=1,
    unroll_steps=5,
    shorter_unrolls=((0.3, 1), (0.45, 2), (0.65, 3)),
    num_candidates=2048,
    row_dropout=0.1,
    batch_tokens=2400,
    muon_rate=0.01,
    adam_rate=0.001,
    eval_documents=64,
)
"""For free text on a CPU [O], not tuned; the tokens are an argument's. One unrolled step at first
and a loss over candidates brought acceptance at depth 1 to 0.37 in 5 minutes of one core, where 5
steps over the whole draft vocabulary stood at 0.33 after 15."""
CHAT_CONTINUING = replace(
    CHAT_TRAINING,
    shorter_unrolls=(),
    batch_tokens=1200,
    muon_rate=0.002,
    adam_rate=0.0002,
    evaluations=2,
)
"""For what starts from a trained EAGLE-3 head: ConFu, its variants and the control."""
CHAT_CONFU = ConfuSettings(
    training=CHAT_CONTINUING,
    contemplate_rate=0.01,
    foresight_depths=4,
    foresight_rate=0.03,
    foresight_weight=0.3,
    foresight_share=0.5,
)
"""For free text [O]. With the paper's loss and column alone, f was worth nothing after 0.2 M
tokens; a [con] that first learns to foresee, and is heard by the draft's logits, was at once."""
HEAD_TOKENS = {
    "eagle3": 1_500_000,
    "confu": 1_000_000,
    "ablations": 300_000,
    "probe": ProbeSettings().num_tokens,
    "compare": 0,  # these two train nothing
    "prompts": 0,
}


def say(line: str) -> None:
    print(line, flush=True)


def _head_job(args: argparse.Namespace, name: str) -> HeadJob:
    if args.target is not None:
        return _chat_job(args, name)
    return HeadJob(
        target=args.out / "target",
        outputs=args.work / "own-outputs",
        work=args.work / name,
        out=args.out / name,
        device=args.device,
        own_outputs=OwnOutputSettings(num_documents=args.documents),
        command=f"python -m confu_demo train {name} --documents {args.documents} "
        f"--tokens {_head_tokens(args, name):g}",
    )


def _chat_job(args: argparse.Namespace, name: str) -> HeadJob:
    """Heads of an instruct model, from its own answers to free-text prompts.

    Raises ValueError for a model without a chat template, and for the bundled suite's folder,
    whose heads serve another target.
    """
    folder, suite = args.target, args.out.name
    if suite == "bundled":
        raise ValueError(
            "--target needs --out, the folder of its suite, for example "
            "assets/models/smollm2-135m: the bundled suite's heads serve another target"
        )
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if tokenizer.chat_template is None:
        raise ValueError(f"{folder} has no chat template: heads are trained on its answers")
    work = args.work / suite
    return HeadJob(
        target=folder,
        outputs=work,
        work=work / name,
        out=args.out / name,
        device=args.device,
        heldout_documents=192,
        command=f"python -m confu_demo train {name} --target TARGET --out {args.out} "
        f"--documents {args.documents} --tokens {_head_tokens(args, name):g}",
        chat=ChatSettings(num_documents=args.documents, dtype=_rough_dtype(args)),
        suite=suite,
        dtype=torch.bfloat16,
    )


def _head_training(args: argparse.Namespace, name: str) -> HeadSettings:
    tokens = _head_tokens(args, name)
    if args.target is None:
        return HeadSettings(total_tokens=tokens)
    settings = CHAT_TRAINING if name == "eagle3" else CHAT_CONTINUING
    return replace(settings, total_tokens=tokens, dtype=_rough_dtype(args))


def _confu_settings(args: argparse.Namespace, name: str) -> ConfuSettings:
    training = _head_training(args, name)
    if args.target is None:
        return ConfuSettings(training=training)
    return replace(CHAT_CONFU, training=training, contemplate_dtype=_rough_dtype(args))


def _rough_dtype(args: argparse.Namespace) -> Literal["float32", "bfloat16"]:
    return "bfloat16" if getattr(args, "bfloat16", False) else "float32"


def _head_tokens(args: argparse.Namespace, name: str) -> int:
    return int(args.tokens or HEAD_TOKENS[name])


def eagle3(args: argparse.Namespace) -> None:
    training = _head_training(args, "eagle3")
    size = 512 if args.target is None else 8192
    settings = EagleSettings(training=training, draft_vocab_size=size)
    train_eagle3(_head_job(args, "eagle3"), settings, say)


def confu(args: argparse.Namespace) -> None:
    """``--continue-eagle3`` trains the control: the EAGLE-3 head for the same extra tokens."""
    name = "eagle3-continued" if args.continue_eagle3 else "confu"
    job = replace(_head_job(args, "confu"), out=args.out / name)
    job = replace(job, work=job.work.with_name(name))
    if args.continue_eagle3:
        job = replace(
            job, out=job.work.with_name(f"{name}-head"), command=f"{job.command} --continue-eagle3"
        )
    settings = _confu_settings(args, "confu")
    if args.foresight_share is not None:
        settings = replace(settings, foresight_share=args.foresight_share)
        job = replace(job, command=f"{job.command} --foresight-share {args.foresight_share:g}")
    if args.soft_prompts is not None:
        settings = replace(settings, num_soft_prompts=args.soft_prompts)
        job = replace(job, command=f"{job.command} --soft-prompts {args.soft_prompts}")
    if args.frozen_drafter:
        settings = replace(settings, frozen_drafter=True)
        job = replace(job, command=f"{job.command} --frozen-drafter")
    if args.contemplation is not None:
        job = replace(job, command=f"{job.command} --contemplation {args.contemplation}")
    train_confu(
        job,
        args.out / "eagle3",
        settings,
        say,
        control=args.continue_eagle3,
        contemplation=args.contemplation,
    )


def ablations(args: argparse.Namespace) -> None:
    job = _head_job(args, "ablations")
    names = NAMES if args.variants is None else [n.strip() for n in args.variants.split(",")]
    settings = _confu_settings(args, "ablations")
    result = run_ablations(job, args.out / "eagle3", settings, names, say)
    _write(args, result, "float32 on weights as published")


def probe(args: argparse.Namespace) -> None:
    job = _head_job(args, "probe")
    settings = ProbeSettings(num_tokens=_head_tokens(args, "probe"))
    say(run_probe(job, args.out / "confu", settings, _head_training(args, "probe"), say))


def compare(args: argparse.Namespace) -> None:
    heads = parse_heads(args.heads)
    settings = _confu_settings(args, "confu")
    result = compare_heads(_head_job(args, "compare"), heads, settings, say)
    _write(args, result, "float32 on weights as published")


def _write(args: argparse.Namespace, result: dict[str, Any], dtype: str) -> None:
    if args.json is not None:
        made = collect(args.device, dtype, torch.get_num_threads(), sys.argv)
        write_comparison(result, asdict(made), args.json)


def publish(args: argparse.Namespace) -> None:
    """``--work`` holds the answers, ``--out`` names the suite."""
    suite = args.out.name
    for split in SPLITS:
        folder = args.work / suite / f"{split}-0"
        path = ANSWERS / suite / f"{split}-0.npz"
        documents, tokens = publish_answers(folder, path)
        say(f"{path}: {documents} answers, {tokens / 1e3:.0f}k tokens with their prompts")


def prompts(args: argparse.Namespace) -> None:
    if args.target is None:
        raise ValueError("name an instruct model with --target: word problems are made by rule")
    make_prompts(_head_job(args, "prompts"), PROMPTS / args.out.name / "heldout.jsonl", say)
