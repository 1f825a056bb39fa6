// Above the step cards: which lane's steps, what another threshold would have decided, who took
// the time, and whether the draft judge is right as often as it is sure.
(function (Confu) {
  "use strict";
  const { el, svg, setText, percent, ms } = Confu;
  const HEIGHT = 64; // of the agreement bars, px
  const WIDTH = 46;

  class StepTools {
    /** @param changed called when the reader tries another threshold */
    constructor(context, changed) {
      this.context = context;
      this.changed = changed;
      this.threshold = null; // what the reader tries; null: as the run had it
      this.key = "";
      const { words } = context;
      this.lanes = el("select", { class: "cf-step-lane", "aria-label": words.say("steps.lane"), on: { change: () => context.select({ lane: this.lanes.value }) } });
      this.slider = el("input", { type: "range", min: 0.5, max: 1.05, step: 0.01, class: "cf-what-if", id: "cf-what-if", on: { input: () => this.attempt(Number(this.slider.value)) } });
      this.value = el("output", { class: "cf-what-if-value", for: "cf-what-if" });
      this.undo = el("button", { type: "button", class: "cf-link", text: words.say("steps.what_if.undo"), on: { click: () => this.attempt(null) } });
      this.found = el("p", { class: "cf-what-if-found", role: "status" });
      this.gate = el("div", { class: "cf-what-if-box" }, [
        el("label", { for: "cf-what-if", text: words.say("steps.what_if") }), this.slider, this.value, this.undo, this.found,
      ]);
      this.time = el("div", { class: "cf-time" });
      this.chart = el("div", { class: "cf-agreement" });
      this.node = el("div", { class: "cf-step-tools" }, [this.lanes, this.gate, this.time, this.chart]);
    }

    attempt(threshold) {
      this.threshold = threshold;
      this.changed();
    }

    draw(frame, lane) {
      const key = `${lane.log.name}/${lane.n}/${this.threshold}/${frame.race}/${frame.stepLanes.length}`;
      if (key === this.key) return;
      this.key = key;
      this.showLanes(frame.stepLanes, lane);
      this.showWhatIf(lane);
      this.showTime(lane);
      this.showAgreement(lane);
    }

    showLanes(stepLanes, lane) {
      const names = stepLanes.map(({ log }) => log.name);
      this.lanes.hidden = names.length < 2;
      if (names.join() !== this.shownLanes) {
        this.shownLanes = names.join();
        this.lanes.replaceChildren(...names.map((name) => el("option", { value: name, text: this.context.words.method(name) })));
      }
      this.lanes.value = lane.log.name;
    }

    /** The threshold of the run; NaN before its first gate and where scores decide. */
    static own(lane) {
      const gated = lane.log.attempts.find((attempt) => attempt.gateAt < lane.n && !Number.isInteger(attempt.gate.score));
      return gated ? gated.gate.threshold : NaN;
    }

    showWhatIf(lane) {
      const { words } = this.context;
      const own = StepTools.own(lane);
      this.gate.hidden = Number.isNaN(own);
      if (this.gate.hidden) return;
      const shown = this.threshold === null ? own : this.threshold;
      this.slider.value = String(shown);
      setText(this.value, shown > 1 ? words.say("steps.what_if.above") : shown.toFixed(2));
      this.undo.hidden = this.threshold === null;
      const { judged, standing, changed } = Confu.stepNumbers.whatIf(lane.log, lane.n, shown);
      const key = this.threshold === null ? "steps.what_if.own" : "steps.what_if.found";
      setText(this.found, judged ? words.say(key, { standing, judged, changed }) : "");
    }

    showTime(lane) {
      const { words } = this.context;
      const spent = Confu.stepNumbers.timeByPart(lane.log, lane.n);
      const total = Confu.stepNumbers.PARTS.reduce((sum, part) => sum + spent[part], 0);
      this.time.hidden = total === 0;
      if (!total) return;
      const listed = Confu.stepNumbers.PARTS.map((part) => `${words.say(`cost.${part}`)} ${ms(spent[part])}`);
      const lost = Confu.stepNumbers.lostMs(lane.log, lane.n);
      this.time.replaceChildren(
        el("span", { class: "cf-time-title", text: words.say("steps.time") }),
        el("div", { class: "cf-time-bar", role: "img", "aria-label": listed.join(", ") }, Confu.stepNumbers.PARTS.map((part, i) =>
          el("span", { class: `cf-time-part cf-time-${part}`, title: listed[i], style: { width: `${(100 * spent[part]) / total}%` } })
        )),
        el("span", { class: "cf-time-list", text: `${listed.join(" · ")} · ${words.say("steps.lost", { ms: ms(lost), share: percent(lost / total) })}` })
      );
    }

    showAgreement(lane) {
      const { words } = this.context;
      const { bins, audited, count } = Confu.stepNumbers.agreement(lane.log, lane.n);
      this.chart.hidden = count === 0;
      if (!count) return;
      const listed = bins.map((bin) => words.say("steps.agreement.bin", { low: bin.low.toFixed(1), high: bin.high.toFixed(1), agreed: bin.agreed, count: bin.count }));
      const picture = svg("svg", { width: WIDTH * bins.length + 4, height: HEIGHT + 32, role: "img", "aria-label": listed.join("; ") });
      bins.forEach((bin, i) => picture.append(this.bar(bin, listed[i], 2 + i * WIDTH)));
      this.chart.replaceChildren(
        el("span", { class: "cf-time-title", text: words.say("steps.agreement") }), picture,
        el("span", { class: "cf-time-list", text: words.say(audited ? "steps.agreement.audited" : "steps.agreement.escalated") })
      );
    }

    /** How often the target agreed, with a mark where it would if confidence were right. */
    bar(bin, title, x) {
      const rate = bin.count ? bin.agreed / bin.count : 0;
      const sure = HEIGHT * (1 - (bin.low + bin.high) / 2);
      return svg("g", {}, [
        svg("title", { text: title }),
        svg("rect", { class: "cf-depth-back", x: x + 2, y: 2, width: WIDTH - 6, height: HEIGHT, rx: 2 }),
        bin.count ? svg("rect", { class: "cf-agreement-bar", x: x + 2, y: 2 + HEIGHT * (1 - rate), width: WIDTH - 6, height: Math.max(1, HEIGHT * rate), rx: 2 }) : null,
        svg("line", { class: "cf-agreement-line", x1: x, x2: x + WIDTH - 2, y1: 2 + sure, y2: 2 + sure }),
        svg("text", { class: "cf-depth-number", x: x + WIDTH / 2 - 1, y: HEIGHT + 15, "text-anchor": "middle", text: `${bin.low.toFixed(1)}–${bin.high.toFixed(1)}` }),
        svg("text", { class: "cf-depth-count", x: x + WIDTH / 2 - 1, y: HEIGHT + 28, "text-anchor": "middle", text: bin.count ? `${bin.agreed}/${bin.count}` : "–" }),
      ]);
    }
  }

  Confu.StepTools = StepTools;
})((window.Confu = window.Confu || {}));
