// The race in words: a lane's state, its acceptance, and one sentence that says who won and who
// lost against the plain target. Losing is said as plainly as winning.
(function (Confu) {
  "use strict";
  const { ms } = Confu;

  function laneState(lane, words) {
    const { finish, tokens } = lane.numbers;
    if (!lane.log.start || lane.n === 0) return words.say("state.waiting");
    if (!finish) {
      return Number.isFinite(lane.numbers.prefill)
        ? words.say("state.running", { tokens })
        : words.say("state.prefill");
    }
    if (finish.reason === "eos") return words.say("state.eos", { tokens, ms: ms(finish.t_ms) });
    return words.say(`state.${finish.reason}`, { tokens, ms: ms(finish.t_ms) });
  }

  /** tau for token methods, kept steps for ConfSpec, a dash where it has no meaning. */
  function acceptance(lane, words) {
    const { acceptanceLength, steps } = lane.numbers;
    if (Number.isFinite(acceptanceLength)) return acceptanceLength.toFixed(2);
    if (steps.closed) return words.say("race.steps_kept", { kept: steps.kept, closed: steps.closed });
    return "–";
  }

  /** What the speedup means, in words; empty without a baseline. */
  function gainInWords(lane, words) {
    const { speedup, numbers } = lane;
    if (numbers.finish && numbers.finish.reason === "error") return numbers.finish.message;
    if (!Number.isFinite(speedup) || !numbers.finish || lane.log.name === "autoregressive") return "";
    const value = speedup.toFixed(2);
    if (speedup < 0.995) return words.say("gain.slower", { speedup: value });
    if (speedup <= 1.005) return words.say("gain.equal", { speedup: value });
    return words.say("gain.faster", { speedup: value });
  }

  function sentence(frame, words) {
    const ended = frame.lanes.filter((lane) => lane.numbers.finish);
    if (!frame.lanes.length) return words.say("summary.empty");
    if (ended.length < frame.lanes.length) {
      const leader = frame.lanes.reduce((a, b) => (b.numbers.tokens > a.numbers.tokens ? b : a));
      if (!leader.numbers.tokens) return words.say("summary.start");
      return words.say("summary.leading", {
        method: words.method(leader.log.name), tokens: leader.numbers.tokens, ms: ms(frame.t),
      });
    }
    if (ended.every((lane) => lane.numbers.finish.reason === "cancelled")) return words.say("summary.cancelled");
    const rivals = ended.filter((lane) => Number.isFinite(lane.speedup) && lane.log.name !== "autoregressive");
    if (!rivals.length) return words.say("summary.no_baseline");
    const parts = [];
    const best = rivals.reduce((a, b) => (b.speedup > a.speedup ? b : a));
    if (best.speedup > 1.005) {
      parts.push(words.say("summary.best", { method: words.method(best.log.name), speedup: best.speedup.toFixed(2) }));
    } else parts.push(words.say("summary.none"));
    const slow = rivals.filter((lane) => lane.speedup < 0.995);
    if (slow.length) {
      const names = slow.map((lane) => `${words.method(lane.log.name)} (${lane.speedup.toFixed(2)}×)`).join(", ");
      parts.push(words.say("summary.slower", { methods: names }));
    }
    return parts.join(" ");
  }

  Confu.summary = { laneState, acceptance, gainInWords, sentence };
})((window.Confu = window.Confu || {}));
