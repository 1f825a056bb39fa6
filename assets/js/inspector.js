// The selected thing in full: a node of the tree, a token, a step, or else the event at the
// playhead. First one sentence that explains it, then its fields.
(function (Confu) {
  "use strict";
  const { el, percent, ms, chips, fact } = Confu;

  function nodeFacts(lane, cycle, index, words) {
    const tree = cycle.proposed.tree;
    if (index >= tree.parents.length) return null;
    const path = Confu.cycleFacts.pathTo(tree, index);
    const total = path.reduce((sum, i) => sum + tree.log_probs[i], 0);
    const verified = cycle.verifiedAt < lane.n ? cycle.verified : null;
    const facts = [
      fact(words, "token", `${chips.inline(tree.texts[index])} (${tree.token_ids[index]})`),
      fact(words, "depth", String(path.length)),
      fact(words, "path", path.map((i) => chips.inline(tree.texts[i])).join(" ") || "–"),
    ];
    if (index > 0) {
      facts.push(fact(words, "draft_prob", percent(Math.exp(tree.log_probs[index]))));
      facts.push(fact(words, "path_log_prob", total.toFixed(2)));
    }
    if (verified) facts.push(fact(words, "target_prob", percent(verified.target_probs[index])));
    const beside = siblings(tree, verified, index);
    if (beside.length) facts.push(fact(words, "beside", beside.join("\n")));
    if (verified && Confu.cycleFacts.contemplated(cycle).has(index)) facts.push(fact(words, "con", words.say("fact.con.yes")));
    return { title: words.say("inspect.node", { cycle: cycle.cycle + 1, node: index }), why: nodeWhy(cycle, verified, index, words), facts };
  }

  /** What else was drafted after the same words: text, the drafter's and the target's probability. */
  function siblings(tree, verified, index) {
    const found = [];
    tree.parents.forEach((parent, i) => {
      if (i === index || i === 0 || parent !== tree.parents[index]) return;
      const probs = [percent(Math.exp(tree.log_probs[i]))];
      if (verified) probs.push(percent(verified.target_probs[i]));
      found.push(`${chips.inline(tree.texts[i])} ${probs.join(" / ")}`);
    });
    return found;
  }

  function nodeWhy(cycle, verified, index, words) {
    if (index === 0) return words.say("why.root");
    if (!verified) return words.say("why.pending");
    if (Confu.cycleFacts.afterTheEnd(cycle).has(index)) return words.say("why.surplus");
    if (verified.accepted.includes(index)) return words.say("why.accepted");
    const tree = cycle.proposed.tree;
    const parent = tree.parents[index];
    const tip = verified.accepted.length ? verified.accepted[verified.accepted.length - 1] : 0;
    const next = verified.accepted.find((i) => tree.parents[i] === parent);
    if (parent === tip) return words.say("why.other", { token: chips.inline(verified.token_text) });
    if (next !== undefined) return words.say("why.other", { token: chips.inline(tree.texts[next]) });
    return words.say("why.orphan");
  }

  function tokenFacts(lane, place, words) {
    const token = lane.log.tokens[place];
    if (!token || token.at >= lane.n) return null;
    const facts = [
      fact(words, "token", `${chips.inline(token.text)} (${token.id})`),
      fact(words, "place", String(place + 1)),
      fact(words, "origin", words.say(`legend.${token.origin}`)),
      fact(words, "committed", ms(token.t)),
    ];
    const cycle = token.cycle === null ? null : lane.log.cycleNumbered(token.cycle);
    if (cycle && cycle.verified) {
      const lost = chips.rejectedTail(cycle).map((i) => chips.inline(cycle.proposed.tree.texts[i]));
      facts.push(fact(words, "cycle", String(token.cycle + 1)));
      if (lost.length) facts.push(fact(words, "rejected", lost.join(" ")));
    }
    if (token.step !== null) facts.push(fact(words, "step", String(token.step + 1)));
    return { title: words.say("inspect.token"), why: words.say(`origin.${token.origin}`), facts };
  }

  function stepFacts(lane, step, words) {
    const attempt = lane.log.attempts.filter((a) => a.step === step && a.at < lane.n).pop();
    if (!attempt) return null;
    const facts = [];
    if (attempt.draftAt < lane.n) facts.push(fact(words, "draft_text", attempt.draft.text.trim()));
    if (attempt.targetAt < lane.n) facts.push(fact(words, "target_text", attempt.target.text.trim()));
    if (attempt.gateAt < lane.n) {
      const gate = attempt.gate;
      facts.push(fact(words, "verdict", words.say(`verdict.${gate.verdict}`)), fact(words, "confidence", gate.confidence.toFixed(3)));
      if (gate.verdict_mass !== null) facts.push(fact(words, "verdict_mass", gate.verdict_mass.toFixed(3)));
      facts.push(fact(words, "threshold", gate.threshold.toFixed(2)), fact(words, "decision", words.say(`decision.${gate.decision}`)));
    }
    if (attempt.judgeAt < lane.n) facts.push(fact(words, "judge", `${words.say(`verdict.${attempt.judge.verdict}`)}, ${attempt.judge.confidence.toFixed(3)}`));
    const state = Confu.stepPhase(attempt, lane.n);
    return { title: words.say("inspect.step", { step: step + 1 }), why: words.say(`phase.${state}.why`), facts };
  }

  function eventFacts(lane, words) {
    if (!lane.n) return { title: words.say("inspect.title"), why: words.say("inspect.empty"), facts: [] };
    const event = lane.log.events[lane.n - 1];
    const explained = Confu.explain(event, words);
    return { title: words.say(`event.${event.event}`), why: explained.why, facts: [fact(words, "time", ms(event.t_ms)), ...explained.facts] };
  }

  /** The lane that is inspected: on the page of the steps, the one that has them. */
  const inspected = (frame) => (frame.page === "steps" && frame.stepLane ? frame.stepLane : frame.selected);

  function inspect(frame, words) {
    const { selection } = frame;
    const lane = inspected(frame);
    if (!lane) return { title: words.say("inspect.title"), why: words.say("inspect.empty"), facts: [] };
    if (selection.lane !== lane.log.name) return eventFacts(lane, words);
    let found = null;
    if (selection.node !== null && selection.cycle !== null) {
      const cycle = lane.log.cycleNumbered(selection.cycle);
      if (cycle && cycle.at < lane.n) found = nodeFacts(lane, cycle, selection.node, words);
    }
    if (!found && selection.token !== null) found = tokenFacts(lane, selection.token, words);
    if (!found && selection.step !== null) found = stepFacts(lane, selection.step, words);
    return found || eventFacts(lane, words);
  }

  /** [name, value] pairs as a list of definitions. */
  function factsOf(facts) {
    return el("dl", {}, facts.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
  }

  class InspectorView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.costly = true;
      this.key = "";
      this.body = el("div", { class: "cf-inspector-body" });
      this.clear = el("button", { type: "button", class: "cf-link", text: words.say("inspect.clear"), on: { click: () => context.select({ clear: true }) } });
      this.tree = el("button", { type: "button", class: "cf-link", text: words.say("inspect.tree"), on: { click: () => context.openTab("tokens") } });
      this.node = el("section", { class: "cf-panel cf-inspector", "aria-label": words.say("inspect.title") }, [
        el("header", { class: "cf-panel-head" }, [el("h3", { text: words.say("inspect.title") }), this.clear]),
        this.body,
        this.tree,
      ]);
    }

    draw(frame) {
      this.node.hidden = !frame.lanes.length;
      const s = frame.selection;
      const lane = inspected(frame);
      const key = [frame.race, frame.page, s.lane, s.cycle, s.node, s.token, s.step, lane ? lane.n : 0].join();
      if (key === this.key) return;
      this.key = key;
      const { words } = this.context;
      this.clear.hidden = [s.cycle, s.node, s.token, s.step, s.expert].every((value) => value === null);
      const token = lane && lane === frame.selected && s.token !== null ? lane.log.tokens[s.token] : null;
      this.tree.hidden = !token || token.cycle === null;
      const { title, why, facts } = inspect(frame, words);
      this.body.replaceChildren(
        el("p", { class: "cf-inspector-lane", text: lane ? words.method(lane.log.name) : "" }),
        el("h4", { text: title }),
        el("p", { class: "cf-why", text: why }),
        factsOf(facts)
      );
    }
  }

  Confu.InspectorView = InspectorView;
  Confu.nodeFacts = nodeFacts;
  Confu.tokenFacts = tokenFacts;
  Confu.factsOf = factsOf;
})((window.Confu = window.Confu || {}));
