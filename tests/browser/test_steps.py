"""The tools above the step cards say what the events say: held against Python's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from confu_demo.config import AUTO_STEPS, SpecreasonConfig
from confu_demo.decoding.base import DecodeRequest, LaneClock
from confu_demo.decoding.specreason import SpecreasonDecoder
from confu_demo.decoding.step_plan import StepCosts
from confu_demo.engine.forward_cost import CostCurve
from confu_demo.metrics import summary
from confu_demo.step_metrics import coverage, verdict_pairs
from confu_demo.trace import Event, RoundPlanned, RunFinished, StepDrafted, StepGated, StepJudged
from tests.browser.conftest import PHONE, NewVisit, Visit
from tests.browser.viewer_page import lanes_as_json, load, mount, recording
from tests.decoding.step_models import (
    PROMPT,
    ScriptedJudge,
    always,
    bind,
    by_length,
    decoder_of,
    random_model,
    run_confspec,
    settings,
)
from tests.ui.scripted_lanes import scripted_lanes

pytestmark = pytest.mark.browser


def real_run(audit: bool = False) -> list[Event]:
    """A run of ConfSpec whose gate meets every case."""
    judge = ScriptedJudge(by_length)
    decoder = decoder_of(
        random_model(3), random_model(3, difference=0.2), draft_judge=judge, target_judge=judge
    )
    return run_confspec(decoder, settings(120, temperature=0.8, threshold=0.75, audit=audit))


def scored_run() -> list[Event]:
    config = replace(settings(80, temperature=0.8), specreason=SpecreasonConfig(threshold=2))
    decoder = SpecreasonDecoder(bind(random_model(3)), bind(random_model(3, difference=0.2)))
    request = DecodeRequest(token_ids=tuple(PROMPT), text="")
    return list(decoder.decode(request, config, LaneClock(), lambda: False))


def open_steps(visit: NewVisit, lanes: Mapping[str, Sequence[Event]], **context: object) -> Visit:
    found = visit(**context)
    mount(found.page)
    load(found.page, recording(lanes_as_json(lanes), expected=None))
    found.act("end")
    found.open_tab("steps")
    return found


def test_another_threshold_recolours_the_gates_and_counts_what_would_stand(visit: NewVisit):
    events = real_run()
    found = open_steps(visit, {"confspec": events})
    pairs = verdict_pairs(events)
    text = found.page.locator(".cf-what-if-found")
    stood = round((coverage(pairs, 0.75, 0.5) or 0.0) * len(pairs))
    assert text.inner_text() == f"{stood} of {len(pairs)} verdicts stood without the target."
    assert found.page.locator(".cf-what-if-value").inner_text() == "0.75"
    before = found.page.locator(".cf-decision").all_inner_texts()
    slider = found.page.locator(".cf-what-if")
    slider.fill("0.93")
    found.settle()
    would = round((coverage(pairs, 0.93, 0.5) or 0.0) * len(pairs))
    assert would < stood
    assert text.inner_text().startswith(f"{would} of {len(pairs)} verdicts would stand")
    assert f"{stood - would} gates would decide otherwise" in text.inner_text()
    assert "Counterfactual" in text.inner_text()
    slider.fill("0.55")
    found.settle()
    changed = [
        word for word in found.page.locator(".cf-decision").all_inner_texts() if "what if" in word
    ]
    assert changed
    assert not any("escalate" in word for word in changed)
    slider.fill("1.05")
    found.settle()
    assert "above 1" in found.page.locator(".cf-what-if-value").inner_text()
    assert text.inner_text().startswith(f"0 of {len(pairs)}")
    found.page.get_by_role("button", name="as it was").click()
    found.settle()
    assert found.page.locator(".cf-decision").all_inner_texts() == before
    assert text.inner_text().startswith(f"{stood} of")


def test_the_time_is_shared_out_by_who_worked(visit: NewVisit):
    events = [
        replace(event, ms=float(place % 7))
        if isinstance(event, (StepDrafted, StepGated, StepJudged))
        else event
        for place, event in enumerate(real_run())
    ]
    found = open_steps(visit, {"confspec": events})
    drafted = [e for e in events if isinstance(e, StepDrafted)]
    spent = {
        "draft": sum(e.ms for e in drafted if e.author == "draft"),
        "target": sum(e.ms for e in drafted if e.author == "target"),
        "gate": sum(e.ms for e in events if isinstance(e, StepGated)),
        "judge": sum(e.ms for e in events if isinstance(e, StepJudged)),
    }
    listed = found.page.locator(".cf-time-list").first.inner_text()
    for name, ms in spent.items():
        assert f"{name} {ms:.1f} ms" in listed or f"{name} {ms:.0f} ms" in listed
    numbers = summary(events).steps
    assert numbers is not None
    assert numbers.lost_ms > 0.0
    lost = numbers.lost_ms
    assert (
        f"came to nothing: {lost:.1f} ms" in listed or f"came to nothing: {lost:.0f} ms" in listed
    )
    total = sum(spent.values())
    for name, ms in spent.items():
        width = found.page.locator(f".cf-time-{name}").evaluate("(node) => node.style.width")
        assert float(width.removesuffix("%")) == pytest.approx(100 * ms / total, abs=0.01)


@pytest.mark.parametrize("audit", [False, True])
def test_agreement_is_counted_by_confidence(visit: NewVisit, audit: bool):
    events = real_run(audit=audit)
    found = open_steps(visit, {"confspec": events})
    bins = [[0, 0] for _ in range(5)]
    for pair in verdict_pairs(events):
        if pair.target_verdict is not None:
            place = min(4, int((pair.confidence - 0.5) * 10 + 1e-12))
            bins[place][1] += 1
            bins[place][0] += pair.verdict == pair.target_verdict
    shown = found.page.locator(".cf-agreement .cf-depth-count").all_text_contents()
    assert shown == [f"{agreed}/{count}" if count else "–" for agreed, count in bins]
    caption = found.page.locator(".cf-agreement").inner_text()
    assert ("Audited: all verdicts" in caption) == audit


def test_the_steps_of_another_lane_can_be_chosen_and_scores_are_told(visit: NewVisit):
    lanes = {"specreason": scored_run(), "confspec": real_run()}
    found = open_steps(visit, lanes)
    choice = found.page.locator(".cf-step-lane")
    assert choice.input_value() == "confspec"
    assert "draft's verdict" in found.page.locator(".cf-steps").inner_text()
    choice.select_option("specreason")
    found.settle()
    shown = found.page.locator(".cf-steps").inner_text()
    gates = [e for e in lanes["specreason"] if isinstance(e, StepGated)]
    scored = next(e for e in gates if e.ms > 0.0)
    assert f"the target's score: {scored.score} of 9, 2 needed" in shown
    assert "draft's verdict" not in shown
    assert found.page.locator(".cf-what-if-box").is_hidden()
    assert choice.input_value() == "specreason"
    found.page.locator(".cf-step-number").first.click()
    found.settle()
    assert choice.input_value() == "specreason"


def test_the_machines_choice_of_draft_steps_is_told(visit: NewVisit):
    dear = CostCurve(((1, 1.0), (64, 1.0)))
    decoder = decoder_of(
        random_model(1), random_model(2), costs=StepCosts(target=dear, draft=dear),
        draft_judge=always("different"), target_judge=always("different"),
    )  # fmt: skip
    events = run_confspec(decoder, settings(120, draft_steps=AUTO_STEPS, fallback=True))
    found = open_steps(visit, {"confspec": events})
    line = found.page.locator(".cf-step-plan")
    assert line.inner_text() == "no k was worth it: the target writes alone"
    place = next(i for i, e in enumerate(events) if isinstance(e, RoundPlanned))
    early = [*events[: place + 1], *[e for e in events if isinstance(e, RunFinished)]]
    plan = early[place]
    assert isinstance(plan, RoundPlanned)
    found = open_steps(visit, {"confspec": [*early[:-1], *events[place + 1 : place + 4]]})
    gain = plan.plain_ms / plan.expected_ms
    shown = found.page.locator(".cf-step-plan").inner_text()
    assert shown.startswith(f"the machine's choice: k = {plan.draft_steps}")
    assert f"{gain:.2f}x" in shown
    assert ("slower" in shown) == (gain < 1)


def test_without_plans_or_verdicts_nothing_stands_there(visit: NewVisit):
    found = open_steps(visit, {"confspec": list(scripted_lanes()["confspec"])})
    assert found.page.locator(".cf-step-plan").is_hidden()
    assert found.page.locator(".cf-step-lane").is_hidden()
    assert found.page.locator(".cf-what-if-box").is_visible()


def test_the_tools_fit_a_phone(visit: NewVisit):
    lanes = {"specreason": scored_run(), "confspec": real_run(audit=True)}
    found = open_steps(visit, lanes, viewport=PHONE)
    wide = found.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]
