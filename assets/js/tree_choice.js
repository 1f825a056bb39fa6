// How a lane's draft trees are chosen, in words: a fixed shape, or what the machine chose so far
// and the measured costs that it went by.
(function (Confu) {
  "use strict";
  const { fixed, ms } = Confu;
  const DRAFTERS = new Set(["eagle3", "confu"]);
  const MANY = 16; // tokens of the second verify cost that is told

  function settings(log) {
    return new Map(log.start ? log.start.event.config : []);
  }

  /** Means over the cycles that were verified before event n. */
  function chosen(lane) {
    const cycles = lane.log.cycles.filter((cycle) => cycle.verifiedAt < lane.n);
    const mean = (value) => fixed(cycles.length ? cycles.reduce((sum, cycle) => sum + value(cycle), 0) / cycles.length : NaN, 1);
    return {
      nodes: mean((cycle) => cycle.proposed.tree.parents.length),
      depth: mean((cycle) => cycle.height),
      con: mean((cycle) => cycle.verified.num_contemplate_tokens),
    };
  }

  function costsInWords({ verify, draft_ms: start, level }, words) {
    if (!verify.length || !level.length) return "";
    const many = verify.find(([rows]) => rows >= MANY) || verify[verify.length - 1];
    return words.say("choice.costs", {
      one: ms(verify[0][1]), rows: many[0], many: ms(many[1]), start: ms(start), level: ms(level[0][1]),
    });
  }

  function fixedInWords(values, kind, words) {
    const budget = values.get("confu.contemplate_budget");
    return words.say(`choice.fixed${kind}`, {
      nodes: values.get("tree.num_nodes"), depth: values.get("tree.depth"), width: values.get("tree.top_k"),
      con: budget === "-1" ? words.say("choice.every") : budget,
    });
  }

  /** One or two sentences; empty for a lane that drafts no trees. */
  function treeChoice(lane, words) {
    const values = settings(lane.log);
    if (!DRAFTERS.has(lane.log.name) || lane.n === 0 || !values.has("tree.num_nodes")) return "";
    const kind = lane.log.name === "confu" ? ".con" : "";
    const { costs } = lane.log.start.event;
    if (values.get("tree.mode") !== "auto") return fixedInWords(values, kind, words);
    const sentence = words.say(`choice.auto${kind}`, chosen(lane));
    return costs ? `${sentence} ${costsInWords(costs, words)}`.trim() : sentence;
  }

  Confu.treeChoice = treeChoice;
})((window.Confu = window.Confu || {}));
