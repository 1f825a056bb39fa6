// The strip of one ConFu mixture: a column per cycle, a row per expert, opacity is the weight and
// an outline marks the chosen ones. Columns are kept between frames; the strip shows those that fit.
(function (Confu) {
  "use strict";
  const { el, svg, setText, percent } = Confu;
  const CELL_W = 11;
  const CELL_H = 14;
  const LEFT = 26; // room for the experts' names

  class Heat {
    /** @param name con or future  @param context of the panel */
    constructor(name, context) {
      this.name = name;
      this.field = `${name}_router`;
      this.context = context;
      this.box = el("div", { class: "cf-strip-box" });
      this.note = el("span", { class: "cf-where" });
      this.base = "";
      this.view = "";
      this.columns = new Map(); // index of a cycle -> its column
    }

    draw(base, lane, count, current, expert, width) {
      const cycles = lane.log.cycles;
      if (base !== this.base) this.begin(base, lane, expert, width);
      const here = current ? cycles.indexOf(current) : count - 1;
      const first = Math.max(0, Math.min(count - this.room, here - 2)); // the newest, and this one
      const end = Math.min(count, first + this.room);
      const view = [first, end, here].join();
      if (view === this.view) return;
      this.view = view;
      this.showColumns(lane, first, end);
      for (const [index, column] of this.columns) Confu.setClass(column, "cf-current", index === here);
      this.strip.setAttribute("transform", `translate(${LEFT - first * CELL_W} 0)`);
      const thought = current ? current.proposed.contemplation : null;
      setText(this.note, thought ? entropyNote(thought[this.field], this.context.words) : "");
    }

    /** Another race, lane, lit expert or width: an empty strip. */
    begin(base, lane, expert, width) {
      this.base = base;
      this.view = "";
      this.columns.clear();
      this.room = Math.max(8, Math.floor((width - LEFT - 4) / CELL_W));
      const thought = lane.log.cycles.map((cycle) => cycle.proposed.contemplation).find(Boolean);
      const rows = thought[this.field].length;
      const size = { width: LEFT + this.room * CELL_W + 2, height: rows * CELL_H + 2 };
      this.strip = svg("g", {});
      const picture = svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, class: `cf-heat cf-heat-${this.name}` }, [this.strip]);
      for (let row = 0; row < rows; row += 1) picture.append(this.rowLabel(row, lane, expert));
      this.box.replaceChildren(picture);
    }

    showColumns(lane, first, end) {
      for (const [index, column] of this.columns) {
        if (index >= first && index < end) continue;
        column.remove();
        this.columns.delete(index);
      }
      for (let index = first; index < end; index += 1) {
        const cycle = lane.log.cycles[index];
        if (this.columns.has(index) || !cycle.proposed.contemplation) continue;
        const column = this.column(lane, cycle, index);
        this.columns.set(index, column);
        this.strip.append(column);
      }
    }

    column(lane, cycle, index) {
      const { words, select } = this.context;
      const weights = cycle.proposed.contemplation[this.field];
      const x = index * CELL_W;
      const group = svg("g", { class: "cf-column", on: { click: () => select({ lane: lane.log.name, cycle: cycle.cycle }) } }, [
        svg("title", { text: words.say("experts.column", { cycle: cycle.cycle + 1, weights: listed(weights) }) }),
        svg("rect", { class: "cf-column-back", x, y: 0, width: CELL_W, height: weights.length * CELL_H + 2 }),
      ]);
      weights.forEach((weight, row) => {
        if (weight <= 0) return;
        group.append(
          svg("rect", {
            x: x + 1.5, y: row * CELL_H + 2, width: CELL_W - 3, height: CELL_H - 3, rx: 2,
            class: "cf-weight cf-chosen", "fill-opacity": (0.12 + 0.88 * weight).toFixed(3),
          })
        );
      });
      return group;
    }

    rowLabel(index, lane, expert) {
      const { words, select } = this.context;
      const lit = Boolean(expert) && expert.mixture === this.name && expert.index === index;
      const toggle = () => select({ lane: lane.log.name, expert: lit ? null : { mixture: this.name, index } });
      const press = (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        toggle();
      };
      return svg("text", {
        x: LEFT - 5, y: index * CELL_H + 11, "text-anchor": "end", class: `cf-expert ${lit ? "cf-lit" : ""}`,
        tabindex: "0", role: "button", "aria-pressed": String(lit), text: `E${index + 1}`,
        "aria-label": words.say("experts.light", { expert: index + 1 }), on: { click: toggle, keydown: press },
      });
    }
  }

  /** The chosen experts, heaviest first: "E3 71%, E6 29%". */
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

  Confu.Heat = Heat;
  Confu.listedWeights = listed;
})((window.Confu = window.Confu || {}));
