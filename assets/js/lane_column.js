// One lane of the Tokens page: the tree of its shown cycle, the details of what was picked, its
// text, its numbers, acceptance by depth, and when it drafted and verified.
(function (Confu) {
  "use strict";
  const { el, setText, setClass, fixed } = Confu;
  const WIDE_TREE = 820; // px from which a tree grows to the right by itself; our choice
  const BESIDE = 540; // px from which there is room for words beside a tree that grows downwards

  class LaneColumn {
    /** @param choose called with a lane's name when the reader wants another one here */
    constructor(context, log, choose) {
      const { words } = context;
      this.context = context;
      this.log = log;
      this.tree = new Confu.LaneTree(context, log.name);
      this.flow = new Confu.TokenFlow(context, log);
      this.depths = new Confu.DepthChart(context);
      this.gantt = new Confu.Gantt(context, log.name);
      this.lanes = el("select", { class: "cf-choose", "aria-label": words.say("tokens.choose"), on: { change: () => choose(this.lanes.value) } });
      this.line = el("span", { class: "cf-where cf-line-name" });
      this.range = el("span", { class: "cf-where" });
      this.details = el("div", { class: "cf-details" });
      this.numbers = el("dl", { class: "cf-figures" });
      this.node = this.build();
      this.keys = { details: "", numbers: "", sight: "" };
    }

    build() {
      const { words } = this.context;
      const part = (kind, children, beside) =>
        el("section", { class: `cf-lane-part cf-lane-${kind}` }, [
          el("h4", { title: words.say(`tokens.${kind}.what`) }, [el("span", { text: words.say(`tokens.${kind}`) }), beside]), ...children,
        ]);
      const legend = el("span", { class: "cf-gantt-legend" }, Confu.gantt.PARTS.map((name) =>
        el("span", {}, [el("span", { class: `cf-swatch cf-part-${name}`, "aria-hidden": "true" }), el("span", { text: words.say(`gantt.${name}`) })])
      ));
      return el("article", { class: "cf-panel cf-lane", "data-lane": this.log.name }, [
        el("header", { class: "cf-panel-head" }, [
          el("span", { class: "cf-key", text: String(this.log.order + 1), "aria-hidden": "true" }), this.lanes, this.tree.pager,
        ]),
        el("div", { class: "cf-scene" }, [this.tree.canvas, el("div", { class: "cf-scene-words" }, [this.tree.caption, this.details])]),
        part("text", [this.flow.node], this.range),
        part("figures", [this.numbers]),
        part("depths", [this.depths.box], this.line),
        part("gantt", [this.gantt.box], legend),
      ]);
    }

    /** @param shared {spans, span, others: column of the other lane or null, figures} */
    draw(frame, column, shared) {
      const { lane, cycle } = column;
      if (frame.layout !== this.layout) this.room = this.flow.node.clientWidth;
      this.layout = frame.layout;
      this.offerLanes(frame);
      setClass(this.node, "cf-selected", frame.selection.lane === lane.log.name);
      this.turn = frame.turn === "auto" ? (this.room >= WIDE_TREE ? "right" : "down") : frame.turn;
      setClass(this.node, "cf-beside", this.turn === "down" && this.room >= BESIDE);
      this.tree.draw(frame, column, this.turn);
      this.drawDetails(frame, column);
      this.flow.draw(lane, this.marks(frame, column));
      this.keepInSight(column);
      setText(this.range, this.rangeOf(lane, cycle));
      this.drawNumbers(shared.figures);
      const other = shared.other;
      setText(this.line, other ? this.context.words.say("depths.line", { method: this.context.words.method(other.name) }) : "");
      this.depths.draw(shared.figures.depths, other && other.figures.depths, other && this.context.words.method(other.name), this.room);
      this.gantt.draw(shared.spans, shared.span, cycle, this.middle(frame, column, shared), this.room);
    }

    /** The middle of the Gantt's window: a picked cycle, else the last cycles before the playhead. */
    middle(frame, { cycle, pinned }, { spans, span }) {
      const shown = spans.find((entry) => entry.cycle === cycle);
      if (shown && (pinned || frame.place !== null)) return (shown.from + shown.to) / 2;
      const last = spans.length ? spans[spans.length - 1].to : 0;
      return Math.min(frame.t, last) - span * 0.4;
    }

    offerLanes(frame) {
      const names = frame.treeLanes.map((lane) => lane.log.name);
      if (this.lanes.dataset.key === names.join()) return;
      this.lanes.dataset.key = names.join();
      const { words } = this.context;
      this.lanes.replaceChildren(...names.map((name) => el("option", { value: name, text: words.method(name) })));
      this.lanes.value = this.log.name;
      this.lanes.disabled = names.length < 2;
    }

    drawDetails(frame, column) {
      const { selection } = frame;
      const { lane, cycle } = column;
      const mine = selection.lane === lane.log.name;
      const node = mine && cycle && selection.cycle === cycle.cycle ? selection.node : null;
      const token = mine ? selection.token : null;
      const verified = Boolean(cycle) && cycle.verifiedAt < lane.n;
      const key = [cycle ? cycle.cycle : "-", node, token, verified, cycle ? cycle.numTokens : 0].join();
      if (key === this.keys.details) return;
      this.keys.details = key;
      const { words } = this.context;
      const found = node !== null ? Confu.nodeFacts(lane, cycle, node, words) : token !== null ? Confu.tokenFacts(lane, token, words) : null;
      if (!found) return this.details.replaceChildren(el("p", { class: "cf-how", text: words.say("tokens.details.how") }));
      return this.details.replaceChildren(
        el("h5", { text: found.title }), el("p", { class: "cf-why", text: found.why }), Confu.factsOf(found.facts)
      );
    }

    marks(frame, column) {
      const { selection } = frame;
      const { lane, cycle } = column;
      const mine = selection.lane === lane.log.name;
      const expert = mine ? selection.expert : null;
      const number = cycle ? cycle.cycle : null;
      const thought = cycle ? cycle.proposed.contemplation : null;
      const ids = new Set(thought ? thought.foreseen.map((token) => token.token_id) : []);
      const first = cycle ? cycle.firstToken : 0;
      return {
        key: [mine ? selection.token : "", expert ? expert.mixture + expert.index : "", number].join("/"),
        picked: mine ? selection.token : null,
        lit: Confu.servedBy(lane.log, expert),
        cycle: number === null ? null : (token) => token.cycle === number,
        foreseen: ids.size ? (token) => ids.has(token.id) && token.place >= first && token.place < first + Confu.foresight.NEAR : null,
      };
    }

    /** A pinned cycle's tokens are brought into view once; the newest line keeps itself in view. */
    keepInSight({ lane, cycle, pinned }) {
      const key = pinned && cycle ? `${cycle.cycle}` : "";
      if (key === this.keys.sight) return;
      this.keys.sight = key;
      if (key) this.flow.bringToSight(Math.min(cycle.firstToken, lane.numbers.tokens - 1));
      else this.flow.node.scrollTop = 0;
    }

    rangeOf(lane, cycle) {
      if (!cycle) return "";
      const first = cycle.firstToken + 1;
      if (cycle.committedAt >= lane.n) return this.context.words.say("tokens.from", { first });
      return this.context.words.say("tokens.range", { first, last: cycle.firstToken + cycle.numTokens });
    }

    drawNumbers(figures) {
      const each = (value) => fixed(figures.tokens > 1 ? value / figures.tokens : NaN, 2);
      const rows = [
        ["tau", fixed(figures.tau, 2)],
        ["verified", fixed(figures.verifiedPerCommitted, 2)],
        ["contemplates", figures.cycles ? String(figures.contemplateTokens) : "–"],
        ["spent", `${each(figures.draft)} / ${each(figures.verify)} / ${each(figures.other)}`],
      ];
      const key = rows.map(([, value]) => value).join();
      if (key === this.keys.numbers) return;
      this.keys.numbers = key;
      const { words } = this.context;
      this.numbers.replaceChildren(...rows.map(([name, value]) =>
        el("div", { title: words.say(`figures.${name}.what`) }, [el("dt", { text: words.say(`figures.${name}`) }), el("dd", { class: "cf-num", text: value, "data-figure": name })])
      ));
    }
  }

  Confu.LaneColumn = LaneColumn;
})((window.Confu = window.Confu || {}));
