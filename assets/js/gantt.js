// When a lane drafted, verified and did the rest, cycle by cycle on its own clock. The picture is
// a window of a few cycles; both lanes of the page show the same span of time.
(function (Confu) {
  "use strict";
  const { el, svg, ms } = Confu;
  const TRACK = 15; // height of a track, px
  const TOP = 15; // room for the number of tokens
  const PARTS = ["draft", "verify", "other"];
  const LEFT = 4;
  const SPANS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000];
  const CYCLES = 6; // about as many fit into the window; our choice

  /** The times of a lane's cycles until event n: [{cycle, from, to, parts: [{part, from, to}]}].
   *  Whatever is neither drafting nor verifying is "other", from one commit to the next. */
  function spansOf(log, n) {
    let before = log.prefill ? log.prefill.event.t_ms : 0;
    const spans = [];
    for (const cycle of log.cycles) {
      if (cycle.at >= n) break;
      const span = { cycle, from: before, parts: [] };
      let now = before;
      const add = (part, from, to) => {
        if (from > now) span.parts.push({ part: "other", from: now, to: from });
        span.parts.push({ part, from, to });
        now = to;
      };
      add("draft", cycle.t - cycle.proposed.ms, cycle.t);
      if (cycle.verifiedAt < n) add("verify", cycle.verified.t_ms - cycle.verified.ms, cycle.verified.t_ms);
      if (cycle.committedAt < n) {
        const end = log.events[cycle.committedAt].t_ms;
        if (end > now) span.parts.push({ part: "other", from: now, to: end });
        now = end;
      }
      span.to = now;
      before = now;
      spans.push(span);
    }
    return spans;
  }

  /** The span of the window, ms: the same for lanes that are compared. */
  function windowFor(lists) {
    const means = lists.filter((spans) => spans.length)
      .map((spans) => (spans[spans.length - 1].to - spans[0].from) / spans.length);
    const wanted = CYCLES * Math.max(0, ...means);
    return SPANS.find((span) => span >= wanted) || SPANS[SPANS.length - 1];
  }

  class Gantt {
    constructor(context, name) {
      this.context = context;
      this.name = name;
      this.key = "";
      this.box = el("div", { class: "cf-gantt" });
    }

    /** @param spans of this lane  @param span of the window, ms  @param shown the shown cycle
     *  @param middle of the window, ms  @param room in px */
    draw(spans, span, shown, middle, room) {
      const from = Math.max(0, middle - span / 2);
      const key = [spans.length, spans.length ? spans[spans.length - 1].to : 0, span, shown ? shown.cycle : "-", from.toFixed(2), room].join();
      if (key === this.key || !room) return;
      this.key = key;
      const width = room;
      const scale = (width - LEFT) / span;
      const x = (t) => LEFT + (t - from) * scale;
      const height = TOP + PARTS.length * TRACK + 16;
      const name = this.context.words.say("tokens.gantt");
      const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": name });
      for (const entry of spans) {
        if (entry.to >= from && entry.from <= from + span) picture.append(this.cycle(entry, x, width, entry.cycle === shown));
      }
      picture.append(...this.clock(from, span, x, width));
      this.box.replaceChildren(picture);
    }

    cycle(entry, x, width, isShown) {
      const { words, select } = this.context;
      const left = x(entry.from);
      const wide = x(entry.to) - left;
      const { cycle } = entry;
      const pin = () => select({ lane: this.name, cycle: cycle.cycle });
      const total = (part) => entry.parts.reduce((sum, p) => (p.part === part ? sum + p.to - p.from : sum), 0);
      const about = words.say("gantt.cycle", {
        cycle: cycle.cycle + 1, tokens: cycle.numTokens, draft: ms(total("draft")), verify: ms(total("verify")), other: ms(total("other")),
      });
      const group = svg("g", { class: `cf-span ${isShown ? "cf-current" : ""}`, on: { click: pin } }, [
        svg("title", { text: about }),
        svg("rect", { class: "cf-span-back", x: left, y: 0, width: Math.max(wide, 1), height: TOP + PARTS.length * TRACK + 2 }),
      ]);
      for (const { part, from, to } of entry.parts) {
        group.append(svg("rect", {
          class: `cf-part cf-part-${part}`, x: x(from), y: TOP + PARTS.indexOf(part) * TRACK + 2,
          width: Math.max((to - from) * ((wide || 1) / (entry.to - entry.from || 1)), 0.75), height: TRACK - 4, rx: 1.5,
        }));
      }
      const middle = left + wide / 2;
      if (cycle.numTokens && wide > 14 && middle > 10 && middle < width - 10) {
        group.append(svg("text", { class: "cf-span-tokens", x: middle, y: 11, "text-anchor": "middle", text: `+${cycle.numTokens}` }));
      }
      return group;
    }

    /** The clock below: a mark at every fifth of the window. */
    clock(from, span, x, width) {
      const step = span / 5;
      const marks = [];
      for (let t = Math.ceil(from / step) * step; t <= from + span; t += step) {
        const at = x(t);
        marks.push(svg("line", { class: "cf-clock-mark", x1: at, x2: at, y1: TOP, y2: TOP + PARTS.length * TRACK + 3 }));
        if (at < width - 42) marks.push(svg("text", { class: "cf-clock-time", x: at + 2, y: TOP + PARTS.length * TRACK + 13, text: `${Math.round(t)} ms` }));
      }
      return marks;
    }
  }

  Confu.Gantt = Gantt;
  Confu.gantt = { PARTS, spansOf, windowFor };
})((window.Confu = window.Confu || {}));
