"""The unrolled training forward against the decoder's own drafter, and the loss by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from confu_demo.config import ConfuConfig, TreeConfig
from confu_demo.decoding.contemplation import ConfuParts, Contemplator
from confu_demo.decoding.draft_tree import TokenTree
from confu_demo.decoding.drafting import Drafter
from confu_demo.decoding.packed_head import PackedHead
from confu_demo.heads.confu import ConfuHead
from confu_demo.heads.eagle import EagleHead
from confu_demo.training.anchors import Anchors
from confu_demo.training.confu_pass import contemplate, future_columns, outlook_of
from confu_demo.training.drafter_unroll import (
    FutureColumns,
    Outlook,
    gather_rows,
    head_candidates,
    unroll,
    unroll_loss,
)
from confu_demo.training.head_batches import HeadBatch, read_target, root_rows
from tests.training.head_kit import (
    LAYERS,
    batch_of,
    lean_twin,
    random_batch,
    random_confu,
    random_eagle,
    tiny_target,
)

TEXT = (1, 3, 2, 4, 0, 3, 7, 5, 6, 11, 2, 19)
CHAIN = TreeConfig(num_nodes=5, depth=4, top_k=1)


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    """Rotary angles are float32 in places."""
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0.0)


def log_probs_along(
    head: EagleHead,
    outputs: list[Tensor],
    batch: HeadBatch,
    row: int,
    outlook: Outlook | None = None,
) -> Tensor:
    """What the unrolled drafter gives to the teacher-forced tokens of document 0: [steps]."""
    words = torch.arange(head.config.draft_vocab_size)
    foreseen = None if outlook is None else outlook.logits(words)[0, 0]
    values = []
    for step, hidden in enumerate(outputs):
        token = batch.token_ids[0, row + 2 + step]
        draft_id = head.target_to_draft(token)
        assert draft_id >= 0
        logits = head.logits(hidden[0, 0])
        if outlook is not None and foreseen is not None:
            logits = logits + outlook.weights[0, 0, step] * foreseen[outlook.ahead[0, 0, step]]
        values.append(logits.log_softmax(-1)[draft_id])
    return torch.stack(values)


def unrolled_chain(
    head: EagleHead,
    batch: HeadBatch,
    row: int,
    steps: int,
    columns: Sequence[FutureColumns] = (),
    outlook: Outlook | None = None,
) -> Tensor:
    answers = read_target(tiny_target(), batch, LAYERS, head.t2d)
    fused = head.fuse(answers.features)
    rows = torch.full((len(batch.lengths), 1), row)
    outputs = unroll(head, answers.embeddings, fused, rows, steps, columns)
    return log_probs_along(head, outputs, batch, row, outlook)


@pytest.mark.parametrize("row", [0, 1, 5, 9])
@torch.no_grad()
def test_an_unrolled_row_equals_the_chain_that_the_decoder_drafts(row: int) -> None:
    model, head = lean_twin(tiny_target()), random_eagle()
    text = torch.tensor(TEXT[: row + 2])
    cache = model.new_cache(len(text))
    features = model.forward(cache, token_ids=text, feature_layers=LAYERS).features
    assert features is not None
    drafter = Drafter(PackedHead(head, model), capacity=16, tree=CHAIN)
    drafter.absorb(text[1:-1], features[:row])
    tree = drafter.propose(text[-1:], drafter.fuse(features[row : row + 1]), max_depth=9)
    drafts = tree.token_ids[1:].tolist()
    assert len(drafts) == 4
    # The other document is longer: padding must not matter.
    batch = batch_of([[*text.tolist(), *drafts], [*TEXT, *TEXT]], [1, 1])
    ours = unrolled_chain(head, batch, row, len(drafts))
    assert_close(ours, tree.log_probs[1:].double())


def confu_chain(
    head: ConfuHead, text: Tensor, num_prompt: int, num_accepted: int
) -> tuple[TokenTree, Tensor, int]:
    """Decodes with the decoder's parts: prefill, a first chain below the root x_num_prompt, and,
    if ``num_accepted`` is not None, the next one after that many accepted nodes. Returns the last
    tree, the text with its root last, and where its [con] was routed from."""
    model = lean_twin(tiny_target())
    cache = model.new_cache(64)
    packed = PackedHead(head.eagle, model)
    parts = ConfuParts(head, model, packed.target_ids)
    contemplator = Contemplator(parts, ConfuConfig(), seed=0)
    drafter = Drafter(packed, 32, CHAIN, float(head.future_bias))
    prompt, root = text[:num_prompt], text[num_prompt : num_prompt + 1]
    features = model.forward(cache, token_ids=prompt, feature_layers=LAYERS).features
    assert features is not None
    drafter.absorb(prompt[1:], features[:-1])
    contemplator.read_prompt(cache, features[-1:])
    fused = drafter.fuse(features[-1:])
    tree = drafter.propose(root, fused, 9, contemplator.future_input(drafter, fused, num_prompt))
    if num_accepted < 0:
        return tree, text[: num_prompt + 1], num_prompt - 1
    out = contemplator.verify_forward(cache, tree, features[-1:])
    path = tuple(range(num_accepted + 1))
    contemplator.follow(out, tree.parents.tolist(), path, num_prompt)
    assert out.features is not None
    accepted = tree.token_ids[1 : num_accepted + 1]
    new_root = text[-1:]
    fused = drafter.fuse(out.features[: num_accepted + 1])
    future = contemplator.future_input(drafter, fused[-1:], num_prompt + 1 + num_accepted)
    tree = drafter.propose(torch.cat((accepted, new_root)), fused, 9, future)
    return tree, torch.cat((prompt, root, accepted, new_root)), num_prompt - 1


@pytest.mark.parametrize("num_accepted", [-1, 0, 2, 4])
@torch.no_grad()
def test_a_row_with_its_future_token_equals_what_the_confu_decoder_drafts(
    num_accepted: int,
) -> None:
    """-1: the prompt's [con] serves the first draft. Else: the [con] after the last accepted node
    of a verify forward, routed from the token before that forward's root."""
    head = random_confu()
    tree, text, routed_from = confu_chain(head, torch.tensor(TEXT), 5, num_accepted)
    row = len(text) - 2
    drafts = tree.token_ids[1:].tolist()
    batch = batch_of([[*text.tolist(), *drafts]], [5])
    target, eagle = tiny_target(), head.eagle
    answers = read_target(target, batch, LAYERS, eagle.t2d)
    at = torch.tensor([[row]])
    anchors = Anchors(
        places=at,
        valid=torch.tensor([[True]]),
        routed_from=torch.tensor([[routed_from]]),
        reach=torch.tensor([[0]]),
    )
    con = contemplate(target, head, batch, answers, anchors)
    fused = gather_rows(eagle.fuse(answers.features), at)
    index, visible = torch.tensor([[0]]), torch.tensor([[True]])
    column = future_columns(head, con.features, anchors, fused, index, visible)
    outlook = outlook_of(head, target, con, anchors, at, index, visible, len(drafts))
    assert outlook is not None
    assert (outlook.weights != 0.0).tolist() == [[[True, True, True, False]]]
    ours = unrolled_chain(eagle, batch, row, len(drafts), column, outlook)
    assert_close(ours, tree.log_probs[1:].double())
    for without in (
        unrolled_chain(eagle, batch, row, len(drafts), (), outlook),
        unrolled_chain(eagle, batch, row, len(drafts), column),
    ):
        assert (without - ours).abs().max() > 1e-3


@torch.no_grad()
def test_the_loss_adds_what_a_con_foresees_by_how_far_the_token_is_from_it() -> None:
    """Rows 4 and 5 are served by the [con] after x_4: what row 5 drafts is one token further."""
    head, target = random_confu(), tiny_target()
    eagle = head.eagle
    batch = random_batch([(14, 3)])
    answers = read_target(target, batch, LAYERS, eagle.t2d)
    at = torch.tensor([[4]])
    anchors = Anchors(at, torch.tensor([[True]]), at, torch.tensor([[7]]))
    con = contemplate(target, head, batch, answers, anchors)
    rows, serving = torch.tensor([[4, 5, 9]]), torch.tensor([[0, 0, -1]])
    visible = torch.tensor([[True, True, True]])
    outlook = outlook_of(head, target, con, anchors, rows, serving, visible, 3)
    assert outlook is not None
    assert head.foresight_weights is not None
    a, b, c = head.foresight_weights.tolist()
    torch.testing.assert_close(
        outlook.weights[0], torch.tensor([[a, b, c], [b, c, 0.0], [0.0, 0.0, 0.0]]).double()
    )
    outputs = unroll(eagle, answers.embeddings, eagle.fuse(answers.features), rows, 3)
    arguments = (eagle, outputs, answers, rows, visible, batch.lengths)
    ours = unroll_loss(*arguments, outlook=outlook).step_losses
    normed = target.model.norm(con.hidden[0, 0])
    readings = torch.stack(  # of the tokens 0, 1, 2 places after the next but one
        [target.lm_head(normed + turn(normed))[eagle.t2d] for turn in head.foresight_maps]
    )
    for step, hidden in enumerate(outputs):
        places = rows[0] + 1 + step
        known = answers.in_vocabulary[0, places]
        reading = readings[[step, min(step + 1, 2), 0]]  # the last row has none
        logits = eagle.logits(hidden[0]) + outlook.weights[0, :, step, None] * reading
        cross = -(answers.probs[0, places] * logits.log_softmax(-1)).sum(-1)
        assert ours[step] == pytest.approx(float(cross[known].mean()), rel=1e-6)
    blind = outlook_of(head, target, con, anchors, rows, serving, ~visible, 3)
    assert unroll_loss(*arguments, outlook=blind).step_losses == pytest.approx(
        unroll_loss(*arguments).step_losses
    )


def naive_row(
    head: EagleHead,
    embeddings: Tensor,
    fused: Tensor,
    row: int,
    steps: int,
    column: tuple[Tensor, Tensor, float] | None,
) -> list[Tensor]:
    """One root row of one document, step by step with a growing list of keys and values."""
    config = head.config
    group = config.num_heads // config.num_kv_heads
    keys, values, biases = [], [], []
    if column is not None:
        keys.append(column[0])
        values.append(column[1])
        biases.append(column[2])
    for before in range(row):
        _, k, v = head.project(
            embeddings[before + 1 : before + 2], fused[before : before + 1], torch.tensor([before])
        )
        keys.append(k)
        values.append(v)
        biases.append(0.0)
    feature, outputs = fused[row : row + 1], []
    for step in range(steps):
        place = row + step
        q, k, v = head.project(embeddings[place + 1 : place + 2], feature, torch.tensor([place]))
        keys.append(k)
        values.append(v)
        biases.append(0.0)
        all_keys = torch.cat(keys, dim=1).repeat_interleave(group, dim=0)
        all_values = torch.cat(values, dim=1).repeat_interleave(group, dim=0)
        scores = q @ all_keys.transpose(1, 2) / math.sqrt(config.head_dim) + torch.tensor(biases)
        feature = head.finish(feature, (scores.softmax(-1) @ all_values).transpose(0, 1).flatten(1))
        outputs.append(feature[0])
    return outputs


@torch.no_grad()
def test_many_rows_of_many_documents_equal_one_row_at_a_time() -> None:
    head = random_eagle()
    batch = random_batch([(12, 3), (9, 4), (14, 2)])
    answers = read_target(tiny_target(), batch, LAYERS, head.t2d)
    fused = head.fuse(answers.features)
    rows, valid = root_rows(batch)
    outputs = unroll(head, answers.embeddings, fused, rows, 3)
    generator = torch.Generator().manual_seed(5)
    shape = (3, 2, rows.size(1), 8)
    keys, values = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    visible = torch.rand(rows.shape, generator=generator) < 0.5
    column = FutureColumns(keys, values, torch.tensor(0.4, dtype=torch.float64), visible)
    with_column = unroll(head, answers.embeddings, fused, rows, 3, [column])
    for document, place in valid.nonzero().tolist():
        row = int(rows[document, place])
        num_steps = min(3, int(batch.lengths[document]) - row - 1)
        arguments = (head, answers.embeddings[document], fused[document], row, num_steps)
        own = (keys[document, :, [place]], values[document, :, [place]], 0.4)
        plain = naive_row(*arguments, None)
        future = naive_row(*arguments, own if visible[document, place] else None)
        for step in range(num_steps):
            assert_close(outputs[step][document, place], plain[step])
            assert_close(with_column[step][document, place], future[step])


@torch.no_grad()
def test_the_loss_counts_completion_tokens_whose_argmax_can_be_drafted() -> None:
    head = random_eagle(draft_vocab_size=11)
    batch = random_batch([(12, 3), (9, 7)])
    target = tiny_target()
    answers = read_target(target, batch, LAYERS, head.t2d)
    rows, valid = root_rows(batch)
    outputs = unroll(head, answers.embeddings, head.fuse(answers.features), rows, 3)
    result = unroll_loss(head, outputs, answers, rows, valid, batch.lengths, decay=0.8)
    expected, left_out = 0.0, 0
    for step in range(3):
        losses = []
        for document, (length, num_prompt) in enumerate([(12, 3), (9, 7)]):
            ids = batch.token_ids[document : document + 1, :length]
            mask = torch.ones(1, length, length, dtype=torch.bool).tril()
            hidden = target(target.embed(ids), torch.arange(length)[None], mask).hidden
            logits = target.lm_head_logits(hidden)[0]
            for place, row in enumerate(range(num_prompt - 1, length - 2)):
                if row + 2 + step > length - 1:
                    continue  # nothing follows the last token
                there = logits[row + 1 + step]
                if not head.t2d[there.argmax()]:
                    left_out += 1
                    continue
                probs = there[head.t2d].softmax(-1)
                ours = head.logits(outputs[step][document, place]).log_softmax(-1)
                losses.append(-(probs * ours).sum())
                match = bool(head.draft_to_target(ours.argmax()) == there.argmax())
                assert bool(result.matches[document, place, step]) == match
        expected += 0.8**step * float(torch.stack(losses).mean())
    assert left_out > 0
    assert float(result.loss) == pytest.approx(expected / (1 + 0.8 + 0.64), abs=1e-5)
    # Every existing token has a label, also where it is left out of the loss.
    assert result.has_label.sum((0, 1)).tolist() == [8 + 1, 7 + 0, 6 + 0]


def test_a_loss_over_candidates_renormalises_the_target_on_the_batchs_likeliest_tokens() -> None:
    head = random_eagle(draft_vocab_size=11)
    batch = random_batch([(12, 3), (9, 7)])
    answers = read_target(tiny_target(), batch, LAYERS, head.t2d)
    rows, valid = root_rows(batch)
    outputs = unroll(head, answers.embeddings, head.fuse(answers.features), rows, 1)
    ids, _, known = head_candidates(head, answers, 4)
    best = head.target_to_draft(answers.argmax)
    mass = answers.probs.sum((0, 1)) + torch.bincount(best[best >= 0], minlength=11)
    assert ids.tolist() == sorted(mass.topk(4).indices.tolist())
    losses = []
    for document, place in valid.nonzero().tolist():
        at = int(rows[document, place]) + 1
        assert bool(known[document, at]) == (int(best[document, at]) in ids.tolist())
        if known[document, at]:
            there = answers.probs[document, at, ids]
            ours = head.logits(outputs[0][document, place])[ids].log_softmax(-1)
            losses.append(float(-(there / there.sum() * ours).sum().detach()))
    assert 0 < len(losses) < int(valid.sum())
    result = unroll_loss(
        head, outputs, answers, rows, valid, batch.lengths, decay=0.8, num_candidates=4
    )
    assert float(result.loss.detach()) == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_as_many_candidates_as_draft_tokens_change_nothing() -> None:
    head = random_eagle(draft_vocab_size=11)
    batch = random_batch([(12, 3), (9, 7)])
    answers = read_target(tiny_target(), batch, LAYERS, head.t2d)
    rows, valid = root_rows(batch)
    outputs = unroll(head, answers.embeddings, head.fuse(answers.features), rows, 2)
    whole, all_of_them = (
        unroll_loss(head, outputs, answers, rows, valid, batch.lengths, num_candidates=num)
        for num in (None, 11)
    )
    assert torch.equal(whole.loss, all_of_them.loss)
    assert torch.equal(whole.matches, all_of_them.matches)


def test_root_rows_run_from_the_last_prompt_token_to_the_last_token_but_two() -> None:
    batch = random_batch([(7, 3), (4, 2), (3, 2)])
    rows, valid = root_rows(batch)
    assert rows.tolist() == [[2, 3, 4], [1, 0, 0], [0, 0, 0]]
    assert valid.tolist() == [[True, True, True], [True, False, False], [False, False, False]]


@torch.no_grad()
def test_labels_of_a_padded_document_are_those_of_the_document_alone() -> None:
    head, target = random_eagle(), tiny_target()
    both = random_batch([(8, 3), (13, 3)])
    alone = random_batch([(8, 3)])
    padded = read_target(target, both, LAYERS, head.t2d)
    single = read_target(target, alone, LAYERS, head.t2d)
    for name in ("features", "probs", "argmax", "in_vocabulary"):
        torch.testing.assert_close(getattr(padded, name)[:1, :8], getattr(single, name))
    torch.testing.assert_close(
        padded.probs[padded.in_vocabulary].sum(-1),
        torch.ones(int(padded.in_vocabulary.sum())),
        check_dtype=False,
    )
