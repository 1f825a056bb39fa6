// A lane's text as chips. Chips are appended and removed by difference, so a long text costs only
// what changed since the last frame. Tokens can be marked: the picked one, those of a cycle,
// those that an expert served, those that were foreseen.
(function (Confu) {
  "use strict";
  const { el, setText, setClass, chips } = Confu;

  class TokenFlow {
    constructor(context, log) {
      this.words = context.words;
      this.log = log;
      this.shown = []; // one node per committed token on the page
      this.pendingKey = "";
      this.markKey = "";
      this.tail = el("span", { class: "cf-tail" });
      this.flow = el("div", { class: "cf-flow-box" }, [this.tail]);
      this.node = el("div", { class: "cf-text", tabindex: "0", role: "group", "aria-label": this.words.method(log.name) }, [this.flow]);
      this.node.addEventListener("click", (event) => {
        const chip = event.target.closest("[data-place]");
        if (chip) context.select({ lane: log.name, token: Number(chip.dataset.place) });
      });
    }

    /** @param lane of the frame  @param marks {key, picked, lit, cycle, foreseen}: `key` changes
     *  with them, `picked` is a place, the others are predicates of a token, or null */
    draw(lane, marks) {
      this.showTokens(lane.numbers.tokens);
      this.nameTheEnd();
      this.showPending(lane);
      this.mark(marks);
    }

    showTokens(count) {
      while (this.shown.length > count) this.shown.pop().remove();
      if (this.shown.length === count) return;
      const batch = document.createDocumentFragment();
      while (this.shown.length < count) {
        const node = chips.flowing(this.log.tokens[this.shown.length], this.words);
        this.shown.push(node);
        batch.append(node);
      }
      this.flow.insertBefore(batch, this.tail);
      this.markKey = "";
    }

    /** A silent last token is a fragment until the run is known to have ended with it. */
    nameTheEnd() {
      const last = this.log.tokens[this.shown.length - 1];
      if (last && last.text === "") setText(this.shown[this.shown.length - 1], chips.label(this.log, last.id, "", this.words));
    }

    showPending(lane) {
      const key = lane.pending.map((item) => `${item.state}:${item.text}`).join("|");
      if (key === this.pendingKey) return;
      this.pendingKey = key;
      this.tail.replaceChildren(
        ...lane.pending.map((item) => chips.chip(item.text, item.state, this.words.say(`origin.${item.state}`)))
      );
    }

    mark(marks) {
      const key = `${marks.key}/${this.shown.length}`;
      if (key === this.markKey) return;
      this.markKey = key;
      const is = (predicate, token) => Boolean(predicate) && predicate(token);
      this.shown.forEach((node, i) => {
        const token = this.log.tokens[i];
        const chip = this.chipOf(i);
        setClass(chip, "cf-picked", marks.picked === i);
        setClass(chip, "cf-lit", is(marks.lit, token));
        setClass(chip, "cf-in-cycle", is(marks.cycle, token));
        setClass(chip, "cf-foretold", is(marks.foreseen, token));
      });
    }

    chipOf(place) {
      const node = this.shown[place];
      return node.dataset.place === undefined ? node.firstChild : node;
    }

    /** Brings a token into the middle of the box; the page itself does not move. */
    bringToSight(place) {
      if (place >= this.shown.length) return;
      const box = this.node.getBoundingClientRect();
      const chip = this.chipOf(place).getBoundingClientRect();
      this.node.scrollTop += chip.top - box.top - box.height / 2;
    }
  }

  /** The predicate "served by this expert", or null without one. */
  function servedBy(log, expert) {
    if (!expert) return null;
    const served = new Set();
    for (const cycle of log.cycles) {
      const thought = cycle.proposed.contemplation;
      if (thought && thought[`${expert.mixture}_router`][expert.index] > 0) served.add(cycle.cycle);
    }
    return (token) => served.has(token.cycle);
  }

  Confu.TokenFlow = TokenFlow;
  Confu.servedBy = servedBy;
})((window.Confu = window.Confu || {}));
