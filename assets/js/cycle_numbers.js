// A lane's numbers about its draft-verify cycles after n events, at time t of its clock. The
// definitions are those of confu_demo/metrics.py; a browser test compares the two.
(function (Confu) {
  "use strict";
  const { LaneLog } = Confu;

  /** @returns {cycles, tau, verifiedPerCommitted, contemplateTokens, depths: [{accepted, reached}],
   *  draft, verify, other}; the last three in ms; depths[0] is depth 1 */
  function cycleNumbers(log, n, t) {
    const found = { cycles: 0, committed: 0, verified: 0, contemplateTokens: 0, depths: [], draft: 0, verify: 0 };
    for (const cycle of log.cycles) {
      if (cycle.at >= n) break;
      found.draft += cycle.proposed.ms;
      if (cycle.verifiedAt < n) found.verify += cycle.verified.ms;
      if (cycle.verifiedAt < n && cycle.committedAt < n) addCommitted(found, cycle);
    }
    const finish = log.finishedAt(n);
    const prefill = log.prefill && log.prefill.at < n ? log.prefill.event.ms : NaN;
    return {
      ...found,
      draft: finish ? finish.draft_ms : found.draft,
      verify: finish ? finish.verify_ms : found.verify,
      other: finish ? finish.other_ms : Math.max(0, t - prefill - found.draft - found.verify),
      tau: found.cycles ? found.committed / found.cycles : NaN,
      verifiedPerCommitted: found.committed ? found.verified / found.committed : NaN,
      tokens: LaneLog.count(log.tokens, n),
    };
  }

  function addCommitted(found, cycle) {
    const { accepted, num_target_tokens: verified, num_contemplate_tokens: contemplate } = cycle.verified;
    found.cycles += 1;
    found.committed += cycle.numTokens;
    found.verified += verified;
    found.contemplateTokens += contemplate;
    for (let depth = 1; depth <= Math.min(accepted.length + 1, cycle.height); depth += 1) {
      const entry = (found.depths[depth - 1] = found.depths[depth - 1] || { accepted: 0, reached: 0 });
      entry.reached += 1;
      if (depth <= accepted.length) entry.accepted += 1;
    }
  }

  Confu.cycleNumbers = cycleNumbers;
})((window.Confu = window.Confu || {}));
