// A token as a chip. Who it comes from is told by border shape as well as by colour:
// drafted dotted, accepted solid, rejected struck, recovered and bonus with a bold edge.
(function (Confu) {
  "use strict";
  const { el } = Confu;

  /** The text of a token for one line: breaks as ↵, tabs as ⇥, lone spaces as ·. */
  function inline(text) {
    if (text === "") return "◌";
    if (/^ +$/.test(text)) return "·".repeat(text.length);
    return text.replace(/\n/g, "↵").replace(/\t/g, "⇥");
  }

  /** A token's label: its text for one line, or a word for the token that ends a run. */
  function label(log, id, text, words) {
    return text === "" && id === log.endId ? words.say("token.end") : inline(text);
  }

  /** One chip. `state` is a class: draft, recovered, bonus, target, pending, rejected. */
  function chip(text, state, title) {
    return el("span", { class: `cf-chip cf-${state}`, text: inline(text), title });
  }

  /** A committed token in running text: its chip, then the line breaks that it contains. */
  function flowing(token, words) {
    const node = chip(token.text, token.origin, words.say(`origin.${token.origin}`));
    if (/^\s+$/.test(token.text) || token.text === "") node.classList.add("cf-blank");
    node.dataset.place = token.place;
    const breaks = (token.text.match(/\n/g) || []).length;
    if (!breaks) return node;
    const wrap = el("span", { class: "cf-flow" }, [node, el("br")]);
    if (breaks > 1) wrap.append(el("span", { class: "cf-gap" }));
    return wrap;
  }

  /** The likeliest path of a draft tree: from the root always the child of highest probability. */
  function likeliestPath(tree) {
    const path = [];
    let node = 0;
    for (;;) {
      let best = -1;
      for (let i = node + 1; i < tree.parents.length; i += 1) {
        if (tree.parents[i] === node && (best < 0 || tree.log_probs[i] > tree.log_probs[best])) best = i;
      }
      if (best < 0) return path;
      path.push(best);
      node = best;
    }
  }

  /** What a lane is about to commit after n events: [{text, state, size?}], empty when it is
   *  between; `size` is the number of tokens where one chip stands for several. */
  function pending(log, n) {
    const count = Confu.LaneLog.count(log.cycles, n);
    const cycle = count ? log.cycles[count - 1] : null;
    if (log.finishedAt(n)) return [];
    if (cycle && cycle.committedAt >= n) return pendingCycle(cycle, n);
    if (cycle) return rejectedTail(cycle).map((i) => ({ text: cycle.proposed.tree.texts[i], state: "rejected" }));
    return pendingSteps(log, n);
  }

  function pendingCycle(cycle, n) {
    const tree = cycle.proposed.tree;
    if (cycle.verifiedAt >= n) {
      return likeliestPath(tree).map((i) => ({ text: tree.texts[i], state: "pending" }));
    }
    const { token_text: text, token_origin: origin } = cycle.verified;
    const chips = Confu.cycleFacts.keptNodes(cycle).map((i) => ({ text: tree.texts[i], state: "draft" }));
    if (Confu.cycleFacts.keepsOwn(cycle)) chips.push({ text, state: origin });
    for (const i of rejectedTail(cycle)) chips.push({ text: tree.texts[i], state: "rejected" });
    return chips;
  }

  /** The nodes of the likeliest path that the target refused. */
  function rejectedTail(cycle) {
    const kept = new Set(cycle.verified.accepted);
    return likeliestPath(cycle.proposed.tree).filter((i) => !kept.has(i));
  }

  function pendingSteps(log, n) {
    const chips = [];
    for (let i = Confu.LaneLog.count(log.attempts, n) - 1; i >= 0 && i >= log.attempts.length - 64; i -= 1) {
      const attempt = log.attempts[i];
      if (attempt.draftAt >= n || attempt.resolvedAt < n || attempt.droppedAt < n) continue;
      const refused = attempt.gateAt < n && attempt.gate.decision === "reject";
      const size = attempt.draft.token_ids.length;
      chips.unshift({ text: attempt.draft.text.trim(), state: refused ? "rejected" : "pending", size });
    }
    return chips;
  }

  Confu.chips = { chip, flowing, inline, label, pending, rejectedTail };
})((window.Confu = window.Confu || {}));
