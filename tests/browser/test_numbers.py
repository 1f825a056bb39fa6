"""The viewer's numbers against confu_demo/metrics.py, which defines them."""

from __future__ import annotations

from typing import Any

import pytest

from confu_demo.foresight_metrics import foresight
from confu_demo.metrics import RunMetrics, identical_text, speedup, summary
from tests.browser.conftest import NewVisit
from tests.browser.viewer_page import lanes_as_json, load, mount, recording
from tests.ui.scripted_lanes import scripted_lanes

pytestmark = pytest.mark.browser

NUMBERS = """([lane, n]) => {
  const log = viewer.timeline.log(lane);
  const numbers = Confu.numbers.laneNumbers(log, n, n ? log.events[n - 1].t_ms : 0);
  const plain = (value) => (Number.isFinite(value) ? value : null);
  return {
    tokens: numbers.tokens, rate: plain(numbers.tokensPerSecond),
    tau: plain(numbers.acceptanceLength), cycles: numbers.numCycles, steps: numbers.steps,
    text: log.textAt(n),
  };
}"""


CYCLES = """([lane, n]) => {
  const log = viewer.timeline.log(lane);
  const t = log.events[n - 1].t_ms;
  const found = Confu.cycleNumbers(log, n, t);
  const luck = Confu.foresight.tally({log, n, numbers: Confu.numbers.laneNumbers(log, n, t)});
  const plain = (value) => (Number.isFinite(value) ? value : null);
  return {
    depths: found.depths.map((entry) => [entry.accepted, entry.reached]),
    tau: plain(found.tau), verified: plain(found.verifiedPerCommitted),
    contemplates: found.contemplateTokens, ms: [found.draft, found.verify, found.other].map(plain),
    foresight: [luck.cycles, luck.hits, plain(luck.chance)],
  };
}"""


def close(number: float | None) -> Any:
    return None if number is None else pytest.approx(number)


def same(found: dict[str, Any], wanted: RunMetrics) -> None:
    assert found["tokens"] == wanted.num_tokens
    assert found["text"] == wanted.text
    assert found["rate"] == close(wanted.tokens_per_s)
    assert found["cycles"] == wanted.num_cycles
    assert found["tau"] == close(wanted.acceptance_length)
    if wanted.steps is not None:
        assert found["steps"]["kept"] == wanted.steps.num_accepted
        assert found["steps"]["escalated"] == wanted.steps.num_escalated


@pytest.mark.parametrize("lane", ["autoregressive", "prompt_lookup", "eagle3", "confu", "confspec"])
def test_every_prefix_of_a_lane_has_the_numbers_that_the_metrics_define(visit: NewVisit, lane: str):
    page = visit().page
    mount(page)
    load(page, recording())
    events = scripted_lanes()[lane]
    for n in range(1, len(events) + 1):
        wanted = summary(events[:n])
        same(page.evaluate(NUMBERS, [lane, n]), wanted)


@pytest.mark.parametrize("lane", ["prompt_lookup", "eagle3", "confu"])
def test_every_prefix_of_a_drafting_lane_has_the_cycle_numbers_of_the_metrics(
    visit: NewVisit, lane: str
):
    page = visit().page
    mount(page)
    load(page, recording())
    events = scripted_lanes()[lane]
    for n in range(2, len(events) + 1):  # from the prefill on
        wanted = summary(events[:n])
        found = page.evaluate(CYCLES, [lane, n])
        assert found["depths"] == [[d.accepted, d.reached] for d in wanted.acceptance_by_depth]
        assert found["tau"] == close(wanted.acceptance_length)
        assert found["verified"] == close(wanted.verified_per_committed)
        assert found["contemplates"] == wanted.num_contemplate_tokens
        assert found["ms"] == pytest.approx([wanted.draft_ms, wanted.verify_ms, wanted.other_ms])
        luck = foresight(events[:n])
        assert found["foresight"] == [luck.num_cycles, luck.num_true, close(luck.chance)]


def test_a_text_that_the_limit_cut_is_not_called_wrong(visit: NewVisit):
    opened = visit()
    mount(opened.page)
    lanes = lanes_as_json()
    for name, number in (("autoregressive", 3), ("eagle3", 30)):
        lanes[name] = [*lanes[name][:number], dict(lanes[name][-1], reason="length")]
    load(opened.page, recording(lanes, expected="35"))
    opened.act("end")
    answers = opened.viewer("Confu.makeFrame(viewer).lanes.map((l) => l.answer)")
    assert answers == ["cut", "wrong", "cut", "wrong", "wrong"]
    row = opened.page.locator(".cf-row[data-lane=eagle3] .cf-verdict")
    assert row.inner_text() == "cut at the limit"
    badges = opened.page.locator(".cf-output[data-lane=eagle3] .cf-badges").inner_text()
    assert "cut at the token limit" in badges
    assert "wrong" not in badges


def test_the_prefills_token_alone_shows_no_rate(visit: NewVisit):
    opened = visit()
    mount(opened.page)
    load(opened.page, recording())
    opened.page.evaluate(
        "() => { const log = viewer.timeline.log('autoregressive');"
        " viewer.playback.goTo(viewer.timeline.placeOf(log, log.tokens[0].at)); viewer.refresh(); }"
    )
    opened.settle()
    assert opened.viewer("Confu.makeFrame(viewer).lanes[0].numbers.tokens") == 1
    assert (
        opened.page.locator(".cf-row[data-lane=autoregressive] .cf-cell-rate").inner_text()[0]
        == "–"
    )


def test_the_final_speedups_are_those_of_the_metrics(visit: NewVisit):
    opened = visit()
    mount(opened.page)
    load(opened.page, recording())
    opened.act("end")
    baseline = summary(scripted_lanes()["autoregressive"])
    found = dict(opened.viewer("Confu.makeFrame(viewer).lanes.map((l) => [l.log.name, l.speedup])"))
    for lane, events in scripted_lanes().items():
        assert found[lane] == pytest.approx(speedup(summary(events), baseline))


def test_identical_is_said_of_lossless_lanes_only_and_only_when_true(visit: NewVisit):
    opened = visit()
    mount(opened.page)
    lanes = lanes_as_json()
    changed = next(e for e in lanes["eagle3"] if e["event"] == "TokensCommitted")
    changed["texts"][0] += "!"
    # ConfSpec's text made the target's own: even then it must not claim anything.
    lanes["confspec"] = [*lanes["autoregressive"][:1], *lanes["autoregressive"][1:]]
    load(opened.page, recording(lanes))
    opened.act("end")
    found = dict(
        opened.viewer("Confu.makeFrame(viewer).lanes.map((l) => [l.log.name, l.identical])")
    )
    assert found == {
        "autoregressive": None, "prompt_lookup": True, "eagle3": False, "confu": True,
        "confspec": None,
    }  # fmt: skip
    original = scripted_lanes()
    assert identical_text(summary(original["confu"]), summary(original["autoregressive"]))
    badges = {
        lane: opened.page.locator(f".cf-output[data-lane={lane}] .cf-badges").inner_text()
        for lane in found
    }
    assert "identical to the target" in badges["confu"]
    assert "differs from the target" in badges["eagle3"]
    assert "identical" not in badges["confspec"]
    assert "identical" not in badges["autoregressive"]


@pytest.mark.parametrize(
    ("expected", "verdict"),
    [("34", "right"), ("34.", "right"), ("35", "wrong"), ("1,034", "wrong"), (None, None)],
)
def test_an_answer_is_right_wrong_or_not_judged(
    visit: NewVisit, expected: str | None, verdict: str | None
):
    opened = visit()
    mount(opened.page)
    load(opened.page, recording(expected=expected))
    opened.act("end")
    answers = opened.viewer("Confu.makeFrame(viewer).lanes.map((l) => l.answer)")
    assert answers == [verdict] * 5


def test_a_lane_slower_than_the_target_is_said_to_be_slower_in_words(visit: NewVisit):
    opened = visit()
    mount(opened.page)
    lanes = lanes_as_json()
    for event in lanes["eagle3"]:
        event["t_ms"] *= 4
    load(opened.page, recording(lanes))
    opened.act("end")
    speed = opened.viewer("Confu.makeFrame(viewer).lanes[2].speedup")
    assert speed < 1
    card = opened.page.locator(".cf-output[data-lane=eagle3] .cf-gain-words").inner_text()
    assert card == f"{speed:.2f}×: slower than the target alone here"
    verdict = opened.page.locator(".cf-summary").inner_text()
    assert f"Slower than the target alone: EAGLE-3 ({speed:.2f}×)" in verdict
