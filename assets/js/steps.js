// ConfSpec's reasoning steps as cards: who wrote the kept text, how sure the draft's own verdict
// was against the threshold, whether the target was asked, and the other text folded below.
(function (Confu) {
  "use strict";
  const { el, setText, setClass, percent, ms } = Confu;

  /** What is known of an attempt after n events; also the key of its card. */
  function phase(attempt, n) {
    if (attempt.resolvedAt < n) return attempt.resolved.bonus ? "bonus" : `kept_${attempt.resolved.kept}`;
    if (attempt.droppedAt < n) return "dropped";
    if (attempt.judgeAt < n) return "judged";
    if (attempt.gateAt < n) return "gated";
    if (attempt.draftAt >= n) return "ahead"; // the target's row behind the last draft step
    return attempt.targetAt < n ? "both" : "drafted";
  }

  function gauge(confidence, threshold, decision, words) {
    const pct = (value) => `${Math.min(100, Math.max(0, value * 100))}%`;
    const line = threshold <= 1 ? el("span", { class: "cf-threshold", style: { left: pct(threshold) }, title: words.say("steps.threshold", { threshold: threshold.toFixed(2) }) }) : null;
    return el("div", { class: `cf-gauge cf-gauge-${decision}`, role: "img", "aria-label": words.say("steps.gauge", { confidence: percent(confidence), threshold: threshold.toFixed(2) }) }, [
      el("span", { class: "cf-gauge-fill", style: { width: pct(confidence) } }),
      line,
    ]);
  }

  /** @param whatIf a threshold that the reader tries, or null */
  function gateRow(attempt, n, words, whatIf, mass) {
    if (attempt.gateAt >= n) return null;
    const gate = attempt.gate;
    if (Number.isInteger(gate.score) && attempt.draft && attempt.draft.complete) return scoreRow(gate, words);
    if (gate.verdict_mass === null) {
      const why = gate.exact_match ? "steps.exact" : gate.decision === "escalate" ? "steps.unasked" : "steps.incomplete";
      return el("div", { class: "cf-gate" }, [el("span", { class: "cf-gate-text", text: words.say(why) })]);
    }
    const decision = whatIf === null ? gate.decision : Confu.stepNumbers.decisionAt(gate, whatIf, mass);
    const said = words.say(`decision.${decision}`);
    return el("div", { class: "cf-gate" }, [
      el("span", { class: "cf-gate-text", text: words.say("steps.gate", { verdict: words.say(`verdict.${gate.verdict}`), confidence: gate.confidence.toFixed(2) }) }),
      gauge(gate.confidence, whatIf === null ? gate.threshold : whatIf, decision, words),
      el("span", { class: `cf-decision cf-decision-${decision}`, text: decision === gate.decision ? said : words.say("steps.what_if.decision", { decision: said }) }),
    ]);
  }

  /** SpecReason: the target's score of the step, seen alone. */
  function scoreRow(gate, words) {
    const best = 9;
    return el("div", { class: "cf-gate" }, [
      el("span", { class: "cf-gate-text", text: words.say("steps.score", { score: gate.score, least: Math.round(gate.threshold * best) }) }),
      gauge(gate.confidence, gate.threshold, gate.decision, words),
      el("span", { class: `cf-decision cf-decision-${gate.decision}`, text: words.say(`decision.${gate.decision}`) }),
    ]);
  }

  function judgeRow(attempt, n, words) {
    const rows = [];
    for (const name of ["judge", "audit"]) {
      if (attempt[`${name}At`] >= n) continue;
      const verdict = attempt[name];
      rows.push(
        el("div", { class: "cf-gate cf-judge" }, [
          el("span", { class: "cf-gate-text", text: words.say(`steps.${name}`, { verdict: words.say(`verdict.${verdict.verdict}`), confidence: verdict.confidence.toFixed(2) }) }),
        ])
      );
    }
    return rows;
  }

  function otherText(attempt, kept, words) {
    const resolved = attempt.resolved;
    if (!resolved || resolved.other_text === null || resolved.other_text === resolved.text) return null;
    const other = resolved.kept === "target" ? "draft" : "target";
    const parts = Confu.wordDiff(resolved.other_text, resolved.text);
    return el("details", { class: `cf-other cf-other-${other}` }, [
      el("summary", { text: words.say(other === "draft" ? "steps.rejected_text" : "steps.target_text") }),
      el("p", {}, parts.map((part) => el(part.changed ? "mark" : "span", { text: part.text }))),
    ]);
  }

  function costs(attempt, n, words) {
    const parts = [];
    for (const [name, event, at] of [
      ["draft", attempt.draft, attempt.draftAt], ["target", attempt.target, attempt.targetAt],
      ["gate", attempt.gate, attempt.gateAt], ["judge", attempt.judge, attempt.judgeAt],
    ]) {
      if (at < n && event.ms > 0) parts.push(`${words.say(`cost.${name}`)} ${ms(event.ms)}`);
    }
    return parts.join(" · ");
  }

  class StepsView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.costly = true;
      this.cards = new Map(); // attempt -> {node, key}
      this.key = "";
      this.caption = el("span", { class: "cf-where" });
      this.tools = new Confu.StepTools(context, () => this.redraw());
      this.plan = el("p", { class: "cf-step-plan", role: "status" });
      this.list = el("ol", { class: "cf-steps" });
      this.node = el("section", { class: "cf-panel", "aria-label": words.say("steps.title") }, [
        el("header", { class: "cf-panel-head" }, [
          el("h3", { text: words.say("steps.title") }), this.caption,
          el("span", { class: "cf-how", text: words.say("steps.how") }),
        ]),
        this.tools.node,
        this.plan,
        this.list,
      ]);
    }

    draw(frame) {
      const lane = frame.stepLane;
      this.node.hidden = !lane;
      if (!lane) return;
      this.frame = frame;
      this.tools.draw(frame, lane);
      const selected = frame.selection.lane === lane.log.name ? frame.selection.step : null;
      const key = `${lane.log.name}/${lane.n}/${selected}/${frame.race}/${this.tools.threshold}`;
      if (key === this.key) return;
      this.key = key;
      const count = Confu.LaneLog.count(lane.log.attempts, lane.n);
      const shown = lane.log.attempts.slice(0, count).filter((a) => phase(a, lane.n) !== "dropped");
      const dropped = count - shown.length;
      this.showPlan(lane);
      this.showCards(shown, lane, selected);
      const { kept, closed, escalated } = lane.numbers.steps;
      setText(this.caption, closed ? this.context.words.say("steps.caption", { kept, closed, escalated, dropped }) : "");
    }

    /** How many steps the machine drafts ahead, where it decides. */
    showPlan(lane) {
      const last = lane.log.plans.filter(({ at }) => at < lane.n).pop();
      this.plan.hidden = !last;
      if (!last) return;
      const { plan } = last;
      const gain = plan.plain_ms / plan.expected_ms;
      const key = plan.fell_back ? "steps.fell_back" : gain < 1 ? "steps.slower" : "steps.plan";
      setText(this.plan, this.context.words.say(key, { count: plan.draft_steps, gain: gain.toFixed(2) }));
    }

    redraw() {
      if (this.frame) this.draw(this.frame);
    }

    showCards(shown, lane, selected) {
      const wanted = new Set(shown);
      for (const [attempt, card] of this.cards) {
        if (wanted.has(attempt)) continue;
        card.node.remove();
        this.cards.delete(attempt);
      }
      shown.forEach((attempt, place) => {
        const state = `${phase(attempt, lane.n)}/${this.tools.threshold}`;
        let card = this.cards.get(attempt);
        if (!card || card.state !== state) {
          const node = this.makeCard(attempt, phase(attempt, lane.n), lane);
          if (card) card.node.replaceWith(node);
          card = { node, state };
          this.cards.set(attempt, card);
        }
        if (this.list.children[place] !== card.node) this.list.insertBefore(card.node, this.list.children[place] || null);
        setClass(card.node, "cf-picked", selected === attempt.step);
      });
    }

    makeCard(attempt, state, lane) {
      const { words, select } = this.context;
      const n = lane.n;
      const text = attempt.resolvedAt < n ? attempt.resolved.text : attempt.draftAt < n ? attempt.draft.text : attempt.target.text;
      const card = el("li", { class: `cf-step cf-step-${state}` }, [
        el("header", {}, [
          el("button", { type: "button", class: "cf-step-number", text: words.say("steps.step", { step: attempt.step + 1 }), on: { click: () => select({ lane: lane.log.name, step: attempt.step }) } }),
          el("span", { class: "cf-step-state", text: words.say(`phase.${state}`) }),
        ]),
        el("p", { class: "cf-step-text", text: text.trim() || words.say("steps.empty") }),
        gateRow(attempt, n, words, this.tools.threshold, Confu.stepNumbers.leastMass(lane.log)),
        ...judgeRow(attempt, n, words),
        attempt.resolvedAt < n ? otherText(attempt, state, words) : null,
        el("p", { class: "cf-step-cost", text: costs(attempt, n, words) }),
      ]);
      return card;
    }
  }

  Confu.StepsView = StepsView;
  Confu.stepPhase = phase;
})((window.Confu = window.Confu || {}));
