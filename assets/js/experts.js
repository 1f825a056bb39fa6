// ConFu's routers, cycle by cycle, and what f foresees: the tokens that the contemplation points
// to and which of them came true.
(function (Confu) {
  "use strict";
  const { el, setText, percent, chips } = Confu;
  const { NEAR } = Confu.foresight;

  class ExpertsView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.costly = true;
      this.key = "";
      this.heats = { con: new Confu.Heat("con", context), future: new Confu.Heat("future", context) };
      this.foreseen = el("ul", { class: "cf-foreseen" });
      this.source = el("p", { class: "cf-caption" });
      this.weights = el("p", { class: "cf-caption", title: words.say("foresee.logits.what") });
      this.tally = el("p", { class: "cf-caption", title: words.say("foresee.tally.what", { near: NEAR }) });
      const parts = Object.entries(this.heats).map(([name, heat]) =>
        el("div", { class: "cf-experts-part" }, [
          el("h4", { title: words.say(`experts.${name}.what`) }, [el("span", { text: words.say(`experts.${name}`) }), heat.note]),
          heat.box,
        ])
      );
      this.node = el("section", { class: "cf-panel cf-experts", "aria-label": words.say("experts.title") }, [
        el("header", { class: "cf-panel-head" }, [
          el("h3", { text: words.say("experts.title") }),
          el("span", { class: "cf-how", text: words.say("experts.how") }),
        ]),
        el("div", { class: "cf-experts-grid" }, [
          ...parts,
          el("div", { class: "cf-experts-part cf-foresee" }, [
            el("h4", { text: words.say("foresee.title"), title: words.say("foresee.what") }), this.foreseen, this.source, this.weights, this.tally,
          ]),
        ]),
      ]);
    }

    draw(frame) {
      const thinker = frame.thinker;
      this.node.hidden = !thinker;
      if (!thinker) return;
      if (frame.layout !== this.layout) this.width = this.heats.con.box.clientWidth;
      this.layout = frame.layout;
      const { lane, cycle } = thinker;
      const expert = frame.selection.expert;
      const count = Confu.LaneLog.count(lane.log.cycles, lane.n);
      const base = [frame.race, lane.log.name, expert ? expert.mixture + expert.index : "", this.width].join();
      for (const heat of Object.values(this.heats)) heat.draw(base, lane, count, cycle, expert, this.width);
      const key = [base, cycle ? cycle.cycle : "-", lane.numbers.tokens, Boolean(lane.numbers.finish)].join();
      if (key === this.key) return;
      this.key = key;
      this.drawForeseen(lane, cycle);
    }

    drawForeseen(lane, cycle) {
      const { words } = this.context;
      const thought = cycle ? cycle.proposed.contemplation : null;
      const list = thought ? thought.foreseen : [];
      this.foreseen.replaceChildren(...list.map((token) => this.foreseenRow(token, lane, cycle)));
      const weights = (thought && thought.logit_weights) || [];
      this.weights.hidden = !weights.length;
      const listed = weights.map((weight) => weight.toFixed(2)).join(", ");
      setText(this.weights, weights.length ? words.say("foresee.logits", { weights: listed }) : "");
      setText(this.tally, this.tallyWords(Confu.foresight.tally(lane)));
      if (!thought) setText(this.source, words.say("foresee.none"));
      else if (thought.source !== "node") setText(this.source, words.say(`foresee.source.${thought.source}`));
      else setText(this.source, words.say("foresee.source.node", { node: thought.source_node, cycle: cycle.cycle }));
    }

    tallyWords({ cycles, hits, chance }) {
      const { words } = this.context;
      if (!cycles) return "";
      const found = words.say("foresee.tally", { hits, cycles, near: NEAR });
      return Number.isFinite(chance) ? `${found} ${words.say("foresee.chance", { chance: percent(chance), share: percent(hits / cycles) })}` : found;
    }

    foreseenRow(token, lane, cycle) {
      const { words } = this.context;
      const ahead = Confu.foresight.distance(token, lane, cycle);
      const over = Confu.foresight.isOver(lane, cycle);
      let fate = words.say(over ? "foresee.false" : "foresee.open", { near: NEAR });
      if (ahead !== null) fate = words.say("foresee.true", { ahead: ahead + 1 });
      return el("li", { class: ahead !== null ? "cf-came-true" : "" }, [
        chips.chip(token.text, "target"),
        el("span", { class: "cf-bar" }, [el("span", { style: { width: `${Math.max(2, token.prob * 100)}%` } })]),
        el("span", { class: "cf-num", text: percent(token.prob) }),
        el("span", { class: "cf-fate", text: fate }),
      ]);
    }
  }

  Confu.ExpertsView = ExpertsView;
})((window.Confu = window.Confu || {}));
