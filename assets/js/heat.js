// The strip of one ConFu mixture: a column per cycle, a row per expert, opacity is the weight and
// an outline marks the chosen ones; below them the entropy of the cycle's weights. Columns are
// kept between frames; the strip shows those that fit.
(function (Confu) {
  "use strict";
  const { el, svg, setText, percent } = Confu;
  const CELL_W = 11;
  const CELL_H = 14;
  const LEFT = 26; // room for the experts' names
  const FOOT = 24; // height of the entropy's bars

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
      const rows = numExperts(cycles, count, this.field);
      const stage = `${base}/${rows}`;
      if (stage !== this.base) this.begin(stage, lane, rows, expert, width);
      const here = current ? cycles.indexOf(current) : count - 1;
      const first = Math.max(0, Math.min(count - this.room, here - 2)); // the newest, and this one
      const end = Math.min(count, first + this.room);
      const view = [first, end, here, count].join();
      if (view === this.view) return;
      this.view = view;
      this.showColumns(lane, first, end);
      for (const [index, column] of this.columns) Confu.setClass(column, "cf-current", index === here);
      this.strip.setAttribute("transform", `translate(${LEFT - first * CELL_W} 0)`);
      const thought = current ? current.proposed.contemplation : null;
      setText(this.note, thought ? this.entropyNote(thought[this.field], cycles, count) : "");
    }

    /** Another race, lane, lit expert or width: an empty strip. */
    begin(base, lane, rows, expert, width) {
      this.base = base;
      this.view = "";
      this.columns.clear();
      this.room = Math.max(8, Math.floor((width - LEFT - 4) / CELL_W));
      this.rows = rows;
      const size = { width: LEFT + this.room * CELL_W + 2, height: rows * CELL_H + FOOT };
      this.strip = svg("g", {});
      const picture = svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, class: `cf-heat cf-heat-${this.name}` }, [this.strip]);
      for (let row = 0; row < rows; row += 1) picture.append(this.rowLabel(row, lane, expert));
      picture.append(svg("text", { class: "cf-entropy-name", x: LEFT - 5, y: rows * CELL_H + FOOT - 6, "text-anchor": "end", text: "H" }));
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
        svg("rect", { class: "cf-column-back", x, y: 0, width: CELL_W, height: this.rows * CELL_H + FOOT }),
        entropyBar(weights, this.rows, x),
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

    /** The shown cycle's experts and entropy, and the mean entropy of the cycles so far. */
    entropyNote(weights, cycles, count) {
      const { words } = this.context;
      const used = cycles.slice(0, count).map((cycle) => cycle.proposed.contemplation)
        .filter((thought) => thought && thought[this.field].some((weight) => weight > 0));
      const mean = used.reduce((sum, thought) => sum + entropy(thought[this.field]), 0) / used.length;
      const bits = words.say("experts.entropy", { bits: entropy(weights).toFixed(2), mean: Confu.fixed(mean, 2) });
      return weights.length ? `${listed(weights)} · ${bits}` : words.say("experts.off");
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

  /** How many experts the mixture has; a control may leave some cycles without weights. */
  function numExperts(cycles, count, field) {
    let most = 0;
    for (let i = 0; i < count; i += 1) {
      const thought = cycles[i].proposed.contemplation;
      if (thought) most = Math.max(most, thought[field].length);
    }
    return most;
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

  /** Entropy in bits of weights that are scaled to sum to 1; as in confu_demo/router_metrics.py. */
  function entropy(weights) {
    const total = weights.reduce((sum, w) => sum + w, 0);
    if (total <= 0) return 0;
    return Math.max(0, weights.reduce((sum, w) => (w > 0 ? sum - (w / total) * Math.log2(w / total) : sum), 0));
  }

  /** A bar as high as the entropy's share of the highest possible one. */
  function entropyBar(weights, rows, x) {
    const share = entropy(weights) / Math.log2(Math.max(2, rows));
    const height = Math.max(1, share * (FOOT - 8));
    return svg("rect", { class: "cf-entropy", x: x + 2, y: rows * CELL_H + FOOT - 3 - height, width: CELL_W - 4, height });
  }

  Confu.Heat = Heat;
  Confu.listedWeights = listed;
  Confu.entropyBits = entropy;
})((window.Confu = window.Confu || {}));
