// Every lane's text, and what is to be said of it: identical, right or wrong, cut, faster or slower.
(function (Confu) {
  "use strict";
  const { el, setText, setClass } = Confu;

  class OutputCard {
    constructor(view, log) {
      const { words } = view.context;
      this.view = view;
      this.log = log;
      this.badges = el("span", { class: "cf-badges" });
      this.gain = el("span", { class: "cf-gain-words" });
      this.choice = el("span", { class: "cf-tree-words" });
      this.flow = new Confu.TokenFlow(view.context, log);
      this.node = el("article", { class: "cf-output", "data-lane": log.name }, [
        el("header", {}, [
          el("h4", {}, [el("span", { class: "cf-key", text: String(log.order + 1), "aria-hidden": "true" }), el("span", { text: words.method(log.name) })]),
          this.badges,
        ]),
        this.flow.node,
        this.gain,
        this.choice,
      ]);
    }

    draw(lane, frame) {
      this.flow.draw(lane, this.marks(frame.selection));
      setClass(this.node, "cf-selected", frame.selection.lane === this.log.name);
      this.showBadges(lane);
      setText(this.gain, Confu.summary.gainInWords(lane, this.view.context.words));
      setClass(this.gain, "cf-slower", lane.speedup < 0.995);
      setText(this.choice, Confu.treeChoice(lane, this.view.context.words));
    }

    /** The selected token, and the tokens that the selected expert served. */
    marks(selection) {
      const mine = selection.lane === this.log.name;
      const expert = mine ? selection.expert : null;
      return {
        key: mine ? `${selection.token}/${expert ? expert.mixture + expert.index : ""}` : "",
        picked: mine ? selection.token : null, lit: Confu.servedBy(this.log, expert),
      };
    }

    showBadges(lane) {
      const { words } = this.view.context;
      const wanted = [];
      if (lane.identical === true) wanted.push(["identical", "≡"]);
      if (lane.identical === false) wanted.push(["differs", "≠"]);
      if (lane.answer === "right" || lane.answer === "wrong") wanted.push([lane.answer, lane.answer === "right" ? "✓" : "✗"]);
      const finish = lane.numbers.finish;
      if (finish && finish.reason !== "eos") wanted.push([finish.reason, "■"]);
      const key = wanted.map((badge) => badge[0]).join();
      if (this.badges.dataset.key === key) return;
      this.badges.dataset.key = key;
      this.badges.replaceChildren(
        ...wanted.map(([name, sign]) =>
          el("span", { class: `cf-badge cf-badge-${name}`, title: words.say(`badge.${name}.why`) }, [
            el("span", { "aria-hidden": "true", text: `${sign} ` }), el("span", { text: words.say(`badge.${name}`) }),
          ])
        )
      );
    }
  }

  class OutputsView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.cards = [];
      this.grid = el("div", { class: "cf-outputs" });
      const legend = ["pending", "draft", "rejected", "recovered", "bonus", "target"].map((state) =>
        el("span", { class: "cf-legend-item" }, [
          el("span", { class: `cf-chip cf-${state}`, text: words.say(`legend.${state}`), title: words.say(`origin.${state}`) }),
        ])
      );
      this.node = el("section", { class: "cf-panel", "aria-label": words.say("outputs.title") }, [
        el("header", { class: "cf-panel-head" }, [
          el("h3", { text: words.say("outputs.title") }),
          el("div", { class: "cf-legend", "aria-label": words.say("legend.title") }, legend),
        ]),
        el("div", { class: "cf-outputs-box" }, [this.grid]),
      ]);
    }

    draw(frame) {
      this.node.hidden = !frame.lanes.length;
      for (let i = this.cards.length; i < frame.lanes.length; i += 1) {
        const card = new OutputCard(this, frame.lanes[i].log);
        this.cards.push(card);
        this.grid.append(card.node);
      }
      frame.lanes.forEach((lane, i) => this.cards[i].draw(lane, frame));
    }
  }

  Confu.OutputsView = OutputsView;
})((window.Confu = window.Confu || {}));
