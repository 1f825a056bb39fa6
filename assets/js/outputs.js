// Every lane's text as chips. Chips are appended and removed by difference, so a long text costs
// only what changed since the last frame.
(function (Confu) {
  "use strict";
  const { el, setText, setClass, chips } = Confu;

  class OutputCard {
    constructor(view, log) {
      const { words, select } = view.context;
      this.view = view;
      this.log = log;
      this.shown = []; // one node per committed token on the page
      this.pendingKey = "";
      this.litKey = "";
      this.badges = el("span", { class: "cf-badges" });
      this.gain = el("span", { class: "cf-gain-words" });
      this.tail = el("span", { class: "cf-tail" });
      this.flow = el("div", { class: "cf-flow-box" }, [this.tail]);
      this.text = el("div", { class: "cf-text", tabindex: "0", role: "group", "aria-label": words.method(log.name) }, [this.flow]);
      this.text.addEventListener("click", (event) => {
        const chip = event.target.closest("[data-place]");
        if (chip) select({ lane: log.name, token: Number(chip.dataset.place) });
      });
      this.node = el("article", { class: "cf-output", "data-lane": log.name }, [
        el("header", {}, [
          el("h4", {}, [el("span", { class: "cf-key", text: String(log.order + 1), "aria-hidden": "true" }), el("span", { text: words.method(log.name) })]),
          this.badges,
        ]),
        this.text,
        this.gain,
      ]);
    }

    draw(lane, frame) {
      this.showTokens(lane.numbers.tokens);
      this.nameTheEnd();
      this.showPending(lane);
      this.light(frame.selection);
      setClass(this.node, "cf-selected", frame.selection.lane === this.log.name);
      this.showBadges(lane);
      setText(this.gain, Confu.summary.gainInWords(lane, this.view.context.words));
      setClass(this.gain, "cf-slower", lane.speedup < 0.995);
    }

    showTokens(count) {
      const { words } = this.view.context;
      while (this.shown.length > count) this.shown.pop().remove();
      if (this.shown.length === count) return;
      const batch = document.createDocumentFragment();
      while (this.shown.length < count) {
        const node = chips.flowing(this.log.tokens[this.shown.length], words);
        this.shown.push(node);
        batch.append(node);
      }
      this.flow.insertBefore(batch, this.tail);
      this.litKey = "";
    }

    /** A silent last token is a fragment until the run is known to have ended with it. */
    nameTheEnd() {
      const last = this.log.tokens[this.shown.length - 1];
      if (last && last.text === "") setText(this.shown[this.shown.length - 1], chips.label(this.log, last.id, "", this.view.context.words));
    }

    showPending(lane) {
      const key = lane.pending.map((item) => `${item.state}:${item.text}`).join("|");
      if (key === this.pendingKey) return;
      this.pendingKey = key;
      const { words } = this.view.context;
      this.tail.replaceChildren(
        ...lane.pending.map((item) => chips.chip(item.text, item.state, words.say(`origin.${item.state}`)))
      );
    }

    /** Lights the selected token, or the tokens that the selected expert served. */
    light(selection) {
      const mine = selection.lane === this.log.name;
      const expert = mine ? selection.expert : null;
      const key = mine ? `${selection.token}/${expert ? expert.mixture + expert.index : ""}` : "";
      if (key === this.litKey) return;
      this.litKey = key;
      const served = expert ? cyclesServed(this.log, expert) : null;
      this.shown.forEach((node, i) => {
        const chip = node.dataset.place === undefined ? node.firstChild : node;
        setClass(chip, "cf-picked", mine && selection.token === i);
        setClass(chip, "cf-lit", served !== null && served.has(this.log.tokens[i].cycle));
      });
    }

    showBadges(lane) {
      const { words } = this.view.context;
      const wanted = [];
      if (lane.identical === true) wanted.push(["identical", "≡"]);
      if (lane.identical === false) wanted.push(["differs", "≠"]);
      if (lane.answer) wanted.push([lane.answer, lane.answer === "right" ? "✓" : "✗"]);
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

  function cyclesServed(log, expert) {
    const served = new Set();
    for (const cycle of log.cycles) {
      const thought = cycle.proposed.contemplation;
      if (thought && thought[`${expert.mixture}_router`][expert.index] > 0) served.add(cycle.cycle);
    }
    return served;
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
