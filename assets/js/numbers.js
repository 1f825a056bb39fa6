// The numbers of a lane after n events, at time t of the common clock. The definitions are those
// of confu_demo/metrics.py; a browser test compares the two.
(function (Confu) {
  "use strict";
  const LOSSLESS = new Set(["prompt_lookup", "eagle3", "confu"]);
  const { LaneLog } = Confu;

  function laneNumbers(log, n, t) {
    const tokens = LaneLog.count(log.tokens, n);
    const finish = log.finishedAt(n);
    const prefill = log.prefill && log.prefill.at < n ? log.prefill.event.ms : NaN;
    // A lane that still runs is charged up to the playhead, so that all lanes are compared at the
    // same clock; its decode time leaves the prefill out.
    const decode = finish ? finish.t_ms - finish.prefill_ms : t - prefill;
    const cycles = committedCycles(log, n);
    return {
      tokens,
      finish,
      prefill,
      // The first token may be the prefill's, whose time is not counted: no rate before the second.
      tokensPerSecond: decode > 0 && tokens > 1 ? (tokens / decode) * 1000 : NaN,
      acceptanceLength: cycles.count ? cycles.tokens / cycles.count : NaN,
      numCycles: cycles.count,
      steps: stepNumbers(log, n),
    };
  }

  function committedCycles(log, n) {
    let count = 0;
    let tokens = 0;
    for (const cycle of log.cycles) {
      if (cycle.at >= n) break;
      if (cycle.committedAt >= n) continue;
      count += 1;
      tokens += cycle.numTokens;
    }
    return { count, tokens };
  }

  /** Draft steps that were gated and whose fate is known, how many were kept, and escalations. */
  function stepNumbers(log, n) {
    const numbers = { closed: 0, kept: 0, escalated: 0 };
    for (const attempt of log.attempts) {
      if (attempt.at >= n) break;
      if (attempt.gateAt >= n) continue;
      if (attempt.gate.decision === "escalate") numbers.escalated += 1;
      if (attempt.resolvedAt < n) {
        numbers.closed += 1;
        if (attempt.resolved.kept === "draft") numbers.kept += 1;
      } else if (attempt.droppedAt < n) numbers.closed += 1;
    }
    return numbers;
  }

  /** Tokens per second against the plain lane's, both at the same clock. */
  function speedup(numbers, baseline) {
    if (!baseline || !Number.isFinite(numbers.tokensPerSecond) || !baseline.tokensPerSecond) return NaN;
    return numbers.tokensPerSecond / baseline.tokensPerSecond;
  }

  function normalise(answer) {
    return answer.trim().replace(/[.\s]+$/, "").replace(/,(?=\d{3})/g, "").toLowerCase();
  }

  /** What the text gives as its answer, or null before it gives one. */
  function answerOf(text) {
    const place = text.lastIndexOf("Answer:");
    if (place < 0) return null;
    const line = text.slice(place + 7).trimStart().split("\n")[0].trim();
    return line || null;
  }

  /** "right", "wrong", "cut" (the limit came before a right answer), or null while there is
   *  nothing to say. */
  function answerVerdict(log, n, expected) {
    if (expected === null || expected === undefined) return null;
    const finish = log.finishedAt(n);
    if (!finish || finish.reason === "cancelled" || finish.reason === "error") return null;
    const answer = answerOf(log.textAt(n));
    if (answer !== null && normalise(answer) === normalise(String(expected))) return "right";
    return finish.reason === "length" ? "cut" : "wrong";
  }

  /** Whether a lossless lane repeats the target's text: true, false, or null (not promised,
   *  not finished, or nothing to compare with). */
  function identical(log, n, baseline, baselineCount) {
    if (!LOSSLESS.has(log.name) || !baseline) return null;
    const ends = [log.finishedAt(n), baseline.finishedAt(baselineCount)];
    if (ends.some((end) => !end || !["eos", "length"].includes(end.reason))) return null;
    return log.textAt(n) === baseline.textAt(baselineCount);
  }

  Confu.numbers = { laneNumbers, speedup, answerOf, answerVerdict, identical, LOSSLESS };
})((window.Confu = window.Confu || {}));
