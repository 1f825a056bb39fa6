// An event in words: one sentence that says what happened, and the fields worth reading.
(function (Confu) {
  "use strict";
  const { ms, chips } = Confu;

  /** A named field of the inspector: [name, value]. */
  const fact = (words, key, value) => [words.say(`fact.${key}`), value];

  /** One sentence and the fields of an event. */
  function explain(event, words) {
    const say = (args) => words.say(`explain.${event.event}`, args);
    switch (event.event) {
      case "RunStarted":
        return { why: say({ method: words.method(event.method), tokens: event.prompt_token_ids.length }), facts: event.config.map(([name, value]) => [name, value]) };
      case "PrefillFinished":
        return { why: say({ tokens: event.num_tokens, ms: ms(event.ms) }), facts: [] };
      case "DraftProposed":
        return { why: say({ cycle: event.cycle + 1, tokens: event.tree.parents.length - 1, ms: ms(event.ms) }), facts: thoughtFacts(event.contemplation, words) };
      case "DraftVerified":
        return {
          why: say({ cycle: event.cycle + 1, accepted: event.accepted.length, token: chips.inline(event.token_text), origin: words.say(`legend.${event.token_origin}`), ms: ms(event.ms) }),
          facts: [fact(words, "verified_tokens", String(event.num_target_tokens)), fact(words, "contemplate_tokens", String(event.num_contemplate_tokens))],
        };
      case "RoundPlanned":
        return {
          why: words.say(event.fell_back ? "explain.RoundPlanned.plain" : "explain.RoundPlanned", { step: event.step + 1, count: event.draft_steps, acceptance: Confu.percent(event.acceptance), gain: (event.plain_ms / event.expected_ms).toFixed(2) }),
          facts: [],
        };
      case "StepDrafted":
        return { why: say({ step: event.step + 1, author: words.say(`author.${event.author}`), ms: ms(event.ms) }), facts: [fact(words, "text", event.text.trim())] };
      case "StepGated":
        if (Number.isInteger(event.score)) {
          return { why: words.say("explain.StepScored", { step: event.step + 1, score: event.score, least: Math.round(event.threshold * 9), decision: words.say(`decision.${event.decision}`) }), facts: [] };
        }
        return { why: say({ step: event.step + 1, verdict: words.say(`verdict.${event.verdict}`), confidence: event.confidence.toFixed(2), threshold: event.threshold.toFixed(2), decision: words.say(`decision.${event.decision}`) }), facts: [] };
      case "StepJudged":
        return { why: say({ step: event.step + 1, verdict: words.say(`verdict.${event.verdict}`), confidence: event.confidence.toFixed(2) }), facts: [] };
      case "StepResolved":
        return { why: say({ step: event.step + 1, author: words.say(`author.${event.kept}`) }), facts: [fact(words, "text", event.text.trim())] };
      case "TokensCommitted":
        return { why: say({ count: event.token_ids.length }), facts: [fact(words, "text", event.texts.map(chips.inline).join(" "))] };
      default:
        return { why: say({ reason: words.say(`reason.${event.reason}`), tokens: event.num_tokens }), facts: finishFacts(event, words) };
    }
  }

  function thoughtFacts(thought, words) {
    if (!thought) return [];
    return [
      fact(words, "con_router", Confu.listedWeights(thought.con_router) || "–"),
      fact(words, "future_router", Confu.listedWeights(thought.future_router) || "–"),
      fact(words, "foreseen", thought.foreseen.map((token) => chips.inline(token.text)).join(" ") || "–"),
    ];
  }

  function finishFacts(event, words) {
    const facts = ["target_forwards", "target_tokens", "draft_forwards"].map((name) => fact(words, name, String(event[name])));
    for (const name of ["prefill_ms", "draft_ms", "verify_ms", "other_ms"]) facts.push(fact(words, name, ms(event[name])));
    if (event.message) facts.push(fact(words, "message", event.message));
    return facts;
  }

  Confu.fact = fact;
  Confu.explain = explain;
})((window.Confu = window.Confu || {}));
