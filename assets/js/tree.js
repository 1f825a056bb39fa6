// The draft tree of one lane's shown cycle: its picture, a pager through the lane's cycles, and
// the cycle in a sentence. Nodes can be picked with the pointer and with the keyboard.
(function (Confu) {
  "use strict";
  const { el, setText } = Confu;

  class LaneTree {
    /** @param name of the lane. `pager`, `canvas` and `caption` are placed by the owner. */
    constructor(context, name) {
      const { words } = context;
      this.context = context;
      this.key = "";
      this.height = 0; // of the picture, px
      this.refocus = null; // a node picked with the keyboard keeps the focus when it is redrawn
      this.label = el("span", { class: "cf-where" });
      this.caption = el("p", { class: "cf-caption" });
      this.canvas = el("div", { class: "cf-tree", tabindex: "0", role: "group", "aria-label": `${words.say("tree.title")}: ${words.method(name)}` });
      const move = (sign, delta, key) =>
        el("button", { type: "button", text: sign, "aria-label": words.say(key), title: words.say(key), on: { click: () => context.moveCycle(name, delta) } });
      this.pager = el("span", { class: "cf-pager" }, [move("‹", -1, "tree.previous"), this.label, move("›", 1, "tree.next")]);
    }

    /** @param column of the frame: {lane, cycle, pinned, here}  @param turn right or down */
    draw(frame, column, turn) {
      if (frame.layout !== this.layout || turn !== this.turn) this.room = this.canvas.clientWidth;
      this.layout = frame.layout;
      this.turn = turn;
      const { lane, cycle, pinned, here } = column;
      const answer = cycle && cycle.verifiedAt < lane.n ? cycle.verified : null;
      const node = frame.selection.lane === lane.log.name ? frame.selection.node : null;
      const total = Confu.LaneLog.count(lane.log.cycles, lane.n);
      const cut = answer ? cycle.numTokens : 0; // grows when the commit arrives
      const key = [cycle ? cycle.cycle : "-", Boolean(answer), cut, node, here, turn, this.room, pinned, total, lane.log.endId, frame.place].join();
      if (key === this.key) return;
      this.key = key;
      if (cycle) this.show(frame, column, answer, { node, here, turn, total });
      else this.showNothing(frame);
    }

    show(frame, column, answer, { node, here, turn, total }) {
      const { words } = this.context;
      const { lane, cycle, pinned } = column;
      setText(this.label, words.say(pinned ? "tree.pinned" : "tree.cycle", { cycle: cycle.cycle + 1, total }));
      setText(this.caption, sentences(cycle, answer, frame.place, words).join(" "));
      const picture = Confu.treePicture(lane.log, { cycle, answer, here }, {
        words, turn, room: this.room,
        decorate: (drawn, box, state) => this.makeSelectable(drawn, lane, cycle, box, state, node),
      });
      this.height = Number(picture.getAttribute("height"));
      this.canvas.replaceChildren(picture);
      if (this.refocus === null) return;
      const drawn = this.canvas.querySelector(`[data-node="${this.refocus}"]`);
      this.refocus = null;
      if (drawn) drawn.focus();
    }

    showNothing(frame) {
      this.height = 0;
      setText(this.label, "–");
      setText(this.caption, this.context.words.say(frame.place === null ? "tree.none" : "tree.not_here"));
      this.canvas.replaceChildren();
    }

    makeSelectable(drawn, lane, cycle, node, state, picked) {
      const { words, select } = this.context;
      const pick = () => select({ lane: lane.log.name, cycle: cycle.cycle, node: node.index });
      drawn.setAttribute("tabindex", "0");
      drawn.setAttribute("role", "button");
      drawn.setAttribute("data-node", node.index);
      drawn.setAttribute("aria-label", `${node.label} — ${words.say(`node.${state}`)}`);
      drawn.addEventListener("click", pick);
      drawn.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        this.refocus = node.index;
        pick();
      });
      if (picked === node.index) drawn.classList.add("cf-picked");
    }
  }

  function sentences(cycle, answer, place, words) {
    const drafted = cycle.proposed.tree.parents.length - 1;
    const parts = [];
    if (place !== null && place > cycle.firstToken) parts.push(words.say("tree.earlier", { count: place - cycle.firstToken }));
    if (!answer) parts.push(words.say("tree.proposed", { drafted, ms: Confu.ms(cycle.proposed.ms) }));
    else {
      const kind = Confu.cycleFacts.keepsOwn(cycle) ? answer.token_origin : "cut";
      parts.push(words.say(`tree.verified.${kind}`, {
        drafted, accepted: answer.accepted.length, verified: answer.num_target_tokens,
        contemplate: answer.num_contemplate_tokens, draft_ms: Confu.ms(cycle.proposed.ms),
        verify_ms: Confu.ms(answer.ms),
      }));
    }
    const { plan } = cycle.proposed;
    if (plan) parts.push(words.say("tree.plan", { tokens: plan.expected_tokens.toFixed(1), ms: Confu.ms(plan.expected_ms) }));
    return parts;
  }

  Confu.LaneTree = LaneTree;
})((window.Confu = window.Confu || {}));
