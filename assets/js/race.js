// The race at a glance: one row per lane with its tokens as a strip of small cells, and the
// numbers beside it. A cell's colour and height say who the token comes from.
(function (Confu) {
  "use strict";
  const { el, setText, setClass, fixed } = Confu;
  const CELL = {
    draft: { height: 1, lift: 0 },
    recovered: { height: 1, lift: 0, edge: true },
    bonus: { height: 1, lift: 0, edge: true },
    target: { height: 0.5, lift: 0.25 },
  };

  class Strip {
    constructor() {
      this.node = el("canvas", { class: "cf-strip", "aria-hidden": "true" });
      this.key = "";
    }

    /** The size in pixels; read only when the layout changed, because reading it costs a layout. */
    measure(layout) {
      if (layout === this.layout) return;
      this.layout = layout;
      this.width = this.node.clientWidth;
      this.height = this.node.clientHeight;
    }

    draw(log, count, total, pendingCount, layout) {
      this.measure(layout);
      const { width, height } = this;
      const ratio = window.devicePixelRatio || 1;
      const key = [count, total, pendingCount, width, ratio, Confu.theme.version].join();
      if (key === this.key || !width) return;
      this.key = key;
      this.node.width = Math.round(width * ratio);
      this.node.height = Math.round(height * ratio);
      const pen = this.node.getContext("2d");
      pen.scale(ratio, ratio);
      pen.fillStyle = Confu.theme.color("--cf-rail");
      pen.fillRect(0, height / 2 - 0.5, width, 1);
      const step = width / total;
      const gap = step > 3.5 ? 1 : 0;
      for (let i = 0; i < count; i += 1) {
        const origin = log.tokens[i].origin;
        const shape = CELL[origin] || CELL.target;
        pen.fillStyle = Confu.theme.color(`--cf-${origin}`);
        const tall = height * shape.height;
        pen.fillRect(i * step, height * shape.lift, Math.max(step - gap, 0.75), tall);
        if (shape.edge && step > 4) {
          pen.fillStyle = Confu.theme.color("--cf-panel");
          pen.fillRect(i * step + (step - gap) / 2 - 0.75, height * 0.3, 1.5, height * 0.4);
        }
      }
      pen.strokeStyle = Confu.theme.color("--cf-pending");
      pen.setLineDash([2, 2]);
      for (let i = count; i < Math.min(count + pendingCount, total); i += 1) {
        pen.strokeRect(i * step + 0.5, 3.5, Math.max(step - gap - 1, 0.5), height - 7);
      }
    }
  }

  function makeRow(view, log) {
    const { words, select } = view.context;
    const row = {
      log,
      strip: new Strip(),
      dot: el("span", { class: "cf-key", text: String(log.order + 1), "aria-hidden": "true" }),
      state: el("span", { class: "cf-state" }),
      rate: el("span", { class: "cf-num" }),
      tau: el("span", { class: "cf-num" }),
      gain: el("span", { class: "cf-num cf-gain" }),
      answer: el("span", { class: "cf-verdict" }),
    };
    const about = words.has(`about.${log.name}`) ? words.say(`about.${log.name}`) : "";
    const name = el("span", { class: "cf-lane-name" }, [
      row.dot, el("span", { text: words.method(log.name) }), row.state,
    ]);
    row.node = el(
      "button",
      { class: "cf-row", type: "button", title: about, "data-lane": log.name, on: { click: () => select({ lane: log.name }) } },
      [name, row.strip.node, cell("rate", row.rate, words), cell("tau", row.tau, words),
        cell("speedup", row.gain, words), cell("answer", row.answer, words)]
    );
    return row;
  }

  function answerText(lane, words) {
    if (lane.answer === "cut") return words.say("answer.cut.short");
    const sign = { right: "✓ ", wrong: "✗ " }[lane.answer] || "";
    return sign + (lane.answerText || "–");
  }

  function cell(kind, value, words) {
    const label = el("span", { class: "cf-cell-label", text: words.say(`race.${kind}`) });
    return el("span", { class: `cf-cell cf-cell-${kind}` }, [value, label]);
  }

  class RaceView {
    constructor(context) {
      this.context = context;
      const { words } = context;
      this.rows = [];
      this.body = el("div", { class: "cf-rows" });
      const head = el("div", { class: "cf-row cf-row-head", "aria-hidden": "true" }, [
        el("span", { text: words.say("race.lane") }),
        el("span", { text: words.say("race.progress") }),
        ...["rate", "tau", "speedup", "answer"].map((kind) =>
          el("span", { class: "cf-cell", text: words.say(`race.${kind}`), title: words.say(`define.${kind}`) })
        ),
      ]);
      this.verdict = el("p", { class: "cf-summary" });
      this.head = head;
      this.node = el("section", { class: "cf-panel cf-race", "aria-label": words.say("race.title") }, [
        head, this.body, this.verdict,
      ]);
    }

    draw(frame) {
      this.head.hidden = !frame.lanes.length;
      for (let i = this.rows.length; i < frame.lanes.length; i += 1) {
        const row = makeRow(this, frame.lanes[i].log);
        this.rows.push(row);
        this.body.append(row.node);
      }
      frame.lanes.forEach((lane, i) => this.drawRow(this.rows[i], lane, frame));
      setText(this.verdict, Confu.summary.sentence(frame, this.context.words));
    }

    drawRow(row, lane, frame) {
      const { words } = this.context;
      const { numbers } = lane;
      setClass(row.node, "cf-selected", frame.selection.lane === lane.log.name);
      row.node.setAttribute("aria-pressed", String(frame.selection.lane === lane.log.name));
      row.strip.draw(lane.log, numbers.tokens, Math.max(frame.longest, 24), lane.pendingCount, frame.layout);
      setText(row.state, Confu.summary.laneState(lane, words));
      const gain = numbers.tokens ? lane.speedup : NaN; // nothing committed yet: nothing to say yet
      setText(row.rate, fixed(numbers.tokens ? numbers.tokensPerSecond : NaN, 0));
      setText(row.tau, Confu.summary.acceptance(lane, words));
      setText(row.gain, Number.isFinite(gain) ? `${gain.toFixed(2)}×` : "–");
      setClass(row.gain, "cf-slower", gain < 0.995);
      setClass(row.gain, "cf-faster", gain > 1.005);
      const verdict = lane.answer;
      setText(row.answer, answerText(lane, words));
      row.answer.title = verdict ? words.say(`answer.${verdict}`) : "";
      setClass(row.answer, "cf-right", verdict === "right");
      setClass(row.answer, "cf-wrong", verdict === "wrong");
      setClass(row.answer, "cf-cut", verdict === "cut");
    }
  }

  Confu.RaceView = RaceView;
})((window.Confu = window.Confu || {}));
