// ConFu's routers: one column per cycle, one row per expert, for the [con] and the [f] mixture;
// opacity is the weight and an outline marks the chosen ones. Beside them what f foresees.
(function (Confu) {
  "use strict";
  const { el, svg, setText, percent, chips } = Confu;
  const CELL_W = 11;
  const CELL_H = 14;
  const LEFT = 26;
  const NEAR = 16; // a foreseen token comes true within this many tokens; our choice

  class ExpertsView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.key = "";
      this.strips = {
        con: el("div", { class: "cf-strip-box" }),
        future: el("div", { class: "cf-strip-box" }),
      };
      this.notes = { con: el("span", { class: "cf-where" }), future: el("span", { class: "cf-where" }) };
      this.foreseen = el("ul", { class: "cf-foreseen" });
      this.source = el("p", { class: "cf-caption" });
      const part = (name) =>
        el("div", { class: "cf-experts-part" }, [
          el("h4", { title: words.say(`experts.${name}.what`) }, [el("span", { text: words.say(`experts.${name}`) }), this.notes[name]]),
          this.strips[name],
        ]);
      this.node = el("section", { class: "cf-panel cf-experts", "aria-label": words.say("experts.title") }, [
        el("header", { class: "cf-panel-head" }, [
          el("h3", { text: words.say("experts.title") }),
          el("span", { class: "cf-how", text: words.say("experts.how") }),
        ]),
        el("div", { class: "cf-experts-grid" }, [
          part("con"), part("future"),
          el("div", { class: "cf-experts-part cf-foresee" }, [
            el("h4", { text: words.say("foresee.title"), title: words.say("foresee.what") }), this.foreseen, this.source,
          ]),
        ]),
      ]);
    }

    draw(frame) {
      const thinker = frame.thinker;
      this.node.hidden = !thinker;
      if (!thinker) return;
      const { lane, cycle } = thinker;
      const count = Confu.LaneLog.count(lane.log.cycles, lane.n);
      const expert = frame.selection.expert;
      const width = this.strips.con.clientWidth;
      const key = [count, cycle ? cycle.cycle : "-", lane.numbers.tokens, expert ? expert.mixture + expert.index : "", width, frame.race].join();
      if (key === this.key) return;
      this.key = key;
      for (const name of ["con", "future"]) this.drawStrip(name, lane, count, cycle, expert);
      this.drawForeseen(lane, cycle);
    }

    drawStrip(name, lane, count, current, expert) {
      const room = Math.max(8, Math.floor((this.strips[name].clientWidth - LEFT - 4) / CELL_W));
      const here = current ? lane.log.cycles.indexOf(current) : count - 1;
      const first = Math.max(0, Math.min(count - room, here - 2)); // the newest that fit, and this one
      const cycles = lane.log.cycles.slice(first, Math.min(count, first + room)).filter((c) => c.proposed.contemplation);
      const field = `${name}_router`;
      const experts = cycles.length ? cycles[0].proposed.contemplation[field].length : 0;
      const width = LEFT + room * CELL_W + 2;
      const picture = svg("svg", {
        width, height: experts * CELL_H + 2, viewBox: `0 0 ${width} ${experts * CELL_H + 2}`, class: `cf-heat cf-heat-${name}`,
      });
      for (let e = 0; e < experts; e += 1) picture.append(this.rowLabel(name, e, lane, expert));
      cycles.forEach((cycle, column) => picture.append(this.column(field, cycle, column, cycle === current, lane)));
      this.strips[name].replaceChildren(picture);
      setText(this.notes[name], current && current.proposed.contemplation ? entropyNote(current.proposed.contemplation[field], this.context.words) : "");
    }

    rowLabel(mixture, index, lane, expert) {
      const { words, select } = this.context;
      const lit = expert && expert.mixture === mixture && expert.index === index;
      const label = svg("text", {
        x: LEFT - 5, y: index * CELL_H + 11, "text-anchor": "end", class: `cf-expert ${lit ? "cf-lit" : ""}`,
        tabindex: "0", role: "button", "aria-pressed": String(Boolean(lit)), text: `E${index + 1}`,
        "aria-label": words.say("experts.light", { expert: index + 1 }),
      });
      const toggle = () => select({ lane: lane.log.name, expert: lit ? null : { mixture, index } });
      label.addEventListener("click", toggle);
      label.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        toggle();
      });
      return label;
    }

    column(field, cycle, column, current, lane) {
      const { words, select } = this.context;
      const weights = cycle.proposed.contemplation[field];
      const x = LEFT + column * CELL_W;
      const group = svg("g", { class: `cf-column ${current ? "cf-current" : ""}` }, [
        svg("title", { text: words.say("experts.column", { cycle: cycle.cycle + 1, weights: listed(weights) }) }),
        svg("rect", { class: "cf-column-back", x, y: 0, width: CELL_W, height: weights.length * CELL_H + 2 }),
      ]);
      weights.forEach((weight, e) => {
        group.append(
          svg("rect", {
            x: x + 1.5, y: e * CELL_H + 2, width: CELL_W - 3, height: CELL_H - 3, rx: 2,
            class: weight > 0 ? "cf-weight cf-chosen" : "cf-weight", "fill-opacity": weight > 0 ? (0.12 + 0.88 * weight).toFixed(3) : 0,
          })
        );
      });
      group.addEventListener("click", () => select({ lane: lane.log.name, cycle: cycle.cycle }));
      return group;
    }

    drawForeseen(lane, cycle) {
      const { words } = this.context;
      const thought = cycle ? cycle.proposed.contemplation : null;
      const list = thought ? thought.foreseen : [];
      this.foreseen.replaceChildren(...list.map((token) => this.foreseenRow(token, lane, cycle)));
      if (!thought) setText(this.source, words.say("foresee.none"));
      else if (thought.source !== "node") setText(this.source, words.say(`foresee.source.${thought.source}`));
      else setText(this.source, words.say("foresee.source.node", { node: thought.source_node, cycle: cycle.cycle }));
    }

    foreseenRow(token, lane, cycle) {
      const { words } = this.context;
      const ahead = distance(token, lane, cycle);
      const known = Math.min(NEAR, lane.numbers.tokens - cycle.firstToken);
      const verdict = ahead !== null ? words.say("foresee.true", { ahead: ahead + 1 })
        : known >= NEAR || lane.numbers.finish ? words.say("foresee.false", { near: NEAR }) : words.say("foresee.open");
      return el("li", { class: ahead !== null ? "cf-came-true" : "" }, [
        chips.chip(token.text, "target"),
        el("span", { class: "cf-bar" }, [el("span", { style: { width: `${Math.max(2, token.prob * 100)}%` } })]),
        el("span", { class: "cf-num", text: percent(token.prob) }),
        el("span", { class: "cf-fate", text: verdict }),
      ]);
    }
  }

  /** How many tokens after the cycle's first committed token a foreseen one appeared, or null. */
  function distance(token, lane, cycle) {
    const end = Math.min(cycle.firstToken + NEAR, lane.numbers.tokens);
    for (let i = cycle.firstToken; i < end; i += 1) {
      if (lane.log.tokens[i].id === token.token_id) return i - cycle.firstToken;
    }
    return null;
  }

  function listed(weights) {
    return weights
      .map((weight, e) => [weight, e])
      .filter(([weight]) => weight > 0)
      .sort((a, b) => b[0] - a[0])
      .map(([weight, e]) => `E${e + 1} ${percent(weight)}`)
      .join(", ");
  }

  function entropyNote(weights, words) {
    const bits = weights.reduce((sum, w) => (w > 0 ? sum - w * Math.log2(w) : sum), 0);
    return `${listed(weights)} · ${words.say("experts.entropy", { bits: bits.toFixed(2) })}`;
  }

  Confu.ExpertsView = ExpertsView;
  Confu.listedWeights = listed;
})((window.Confu = window.Confu || {}));
