// The Tokens page: two lanes side by side on one clock, lined up by the moment or by the place in
// the text. Owns the switches; a lane's own parts are in lane_column.js.
(function (Confu) {
  "use strict";
  const { el, setText, setClass } = Confu;
  class TokensView {
    constructor(context) {
      const { words, compare } = context;
      this.context = context;
      this.costly = true;
      this.columns = [];
      const choices = (name, values) => values.map((value) =>
        el("button", { type: "button", "data-value": value, text: words.say(`tokens.${name}.${value}`), title: words.say(`tokens.${name}.${value}.why`), on: { click: () => compare({ [name]: value }) } }));
      this.by = choices("by", ["moment", "place"]);
      this.turn = choices("turn", ["right", "down"]);
      const group = (name, buttons) =>
        el("span", { class: "cf-choice" }, [
          el("span", { class: "cf-where", text: words.say(`tokens.${name}`) }),
          el("span", { class: "cf-tabs", role: "group", "aria-label": words.say(`tokens.${name}`) }, buttons),
        ]);
      this.byGroup = group("by", this.by);
      this.back = el("button", { type: "button", class: "cf-link", text: words.say("inspect.clear"), on: { click: () => context.select({ clear: true }) } });
      this.note = el("p", { class: "cf-caption cf-parted", role: "status" });
      this.grid = el("div", { class: "cf-lanes" });
      this.node = el("section", { class: "cf-tokens", "aria-label": words.say("tokens.title") }, [
        el("div", { class: "cf-toolbar" }, [this.byGroup, group("turn", this.turn), this.back]),
        this.note,
        el("div", { class: "cf-lanes-box" }, [this.grid]),
        el("p", { class: "cf-how", text: words.say("tree.how") }),
      ]);
    }

    draw(frame) {
      this.node.hidden = !frame.columns.length;
      if (this.node.hidden) return;
      this.makeColumns(frame);
      const lists = frame.columns.map(({ lane }) => Confu.gantt.spansOf(lane.log, lane.n));
      const span = Confu.gantt.windowFor(lists);
      const figures = frame.columns.map(({ lane }) => Confu.cycleNumbers(lane.log, lane.n, frame.t));
      frame.columns.forEach((column, i) => {
        const beside = frame.columns[1 - i];
        this.columns[i].draw(frame, column, {
          spans: lists[i], span, figures: figures[i],
          other: beside ? { name: beside.lane.log.name, figures: figures[1 - i] } : null,
        });
      });
      this.drawSwitches(frame);
      this.keepHeight(frame);
    }

    /** Both trees have the height of the tallest one so far, so that playing moves nothing. */
    keepHeight(frame) {
      const stage = `${this.key}/${frame.layout}/${this.columns[0].turn}`;
      if (stage !== this.stage) this.tallest = 0;
      this.stage = stage;
      const tallest = Math.max(this.tallest, ...this.columns.map((column) => column.tree.height));
      if (tallest === this.tallest) return;
      this.tallest = tallest;
      this.grid.style.setProperty("--cf-tree-height", `${Math.ceil(tallest)}px`);
    }

    /** New columns when the lanes are others. */
    makeColumns(frame) {
      const names = frame.columns.map(({ lane }) => lane.log.name);
      const key = `${frame.race}/${names.join()}`;
      if (key === this.key) return;
      this.key = key;
      const sides = names.length > 1 ? ["left", "right"] : ["right"];
      this.columns = frame.columns.map(({ lane }, i) => new Confu.LaneColumn(this.context, lane.log, (name) => this.choose(sides[i], name, names)));
      this.grid.replaceChildren(...this.columns.map((column) => column.node));
      setClass(this.grid, "cf-alone", names.length < 2);
    }

    /** Another lane on one side; the lane of the other side changes places with it. */
    choose(side, name, names) {
      const [left, right] = names.length > 1 ? names : [null, names[0]];
      const next = { left, right, [side]: name };
      if (next.left === next.right) next[side === "left" ? "right" : "left"] = side === "left" ? left : right;
      this.context.compare(next);
    }

    drawSwitches(frame) {
      const { words } = this.context;
      this.byGroup.hidden = frame.columns.length < 2;
      const { turn } = this.columns[0];
      for (const button of this.by) button.setAttribute("aria-pressed", String(button.dataset.value === (frame.place === null ? "moment" : "place")));
      for (const button of this.turn) button.setAttribute("aria-pressed", String(button.dataset.value === turn));
      const { selection } = frame;
      this.back.hidden = selection.token === null && selection.node === null && selection.expert === null && !Object.keys(selection.pins).length;
      const parted = frame.parted;
      setText(this.note, parted === null ? "" : words.say("tokens.parted", { place: parted + 1 }));
      this.note.hidden = parted === null;
    }
  }

  Confu.TokensView = TokensView;
})((window.Confu = window.Confu || {}));
