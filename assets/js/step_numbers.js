// Numbers of the Steps page, as of event n: who took the time, what another threshold would have
// decided, and how often the target agrees with the draft judge at each confidence.
(function (Confu) {
  "use strict";
  const BINS = 5; // confidences of 0.5 to 1 in equal parts
  const PARTS = ["draft", "target", "gate", "judge"];

  const seen = (log, n) => log.attempts.filter((attempt) => attempt.at < n);

  /** Milliseconds by who worked: the draft model writing, the target writing, the draft model
   *  judging (or, with scores, the target), the target judging; audits are off the clock. */
  function timeByPart(log, n) {
    const spent = Object.fromEntries(PARTS.map((part) => [part, 0]));
    for (const attempt of seen(log, n)) {
      for (const part of PARTS) if (attempt[`${part}At`] < n) spent[part] += attempt[part].ms;
    }
    return spent;
  }

  /** Milliseconds of written steps that came to nothing: drafts that were not kept, and target
   *  steps that were neither kept nor compared with a draft that was. */
  function lostMs(log, n) {
    let lost = 0;
    for (const attempt of seen(log, n)) {
      const kept = attempt.resolvedAt < n ? attempt.resolved.kept : null;
      if (!kept && attempt.droppedAt >= n) continue; // not decided yet
      if (attempt.draftAt < n && kept !== "draft") lost += attempt.draft.ms;
      if (attempt.targetAt < n && !kept) lost += attempt.target.ms;
    }
    return lost;
  }

  /** What a gate with this threshold does with a verdict; null where no verdict was asked. */
  function decisionAt(gate, threshold, leastMass) {
    if (gate.verdict_mass === null) return null;
    const confident = gate.confidence >= threshold && gate.verdict_mass >= leastMass;
    if (!confident && threshold > 0.5) return "escalate";
    return gate.verdict === "same" ? "accept" : "reject";
  }

  function leastMass(log) {
    const values = new Map(log.start ? log.start.event.config : []);
    return Number(values.get("confspec.min_verdict_mass") || 0);
  }

  /** {judged, standing, changed}: verdicts, those that stand at the threshold, and those whose
   *  decision differs from the run's own. */
  function whatIf(log, n, threshold) {
    const numbers = { judged: 0, standing: 0, changed: 0 };
    const mass = leastMass(log);
    for (const attempt of seen(log, n)) {
      if (attempt.gateAt >= n) continue;
      const decision = decisionAt(attempt.gate, threshold, mass);
      if (decision === null) continue;
      numbers.judged += 1;
      if (decision !== "escalate") numbers.standing += 1;
      if (decision !== attempt.gate.decision) numbers.changed += 1;
    }
    return numbers;
  }

  /** Bins of the draft judge's confidence: [{low, high, count, agreed}], where the target gave
   *  its verdict too; and whether any of them was an audit. */
  function agreement(log, n) {
    const bins = Array.from({ length: BINS }, (_, i) => ({ low: 0.5 + i / (2 * BINS), high: 0.5 + (i + 1) / (2 * BINS), count: 0, agreed: 0 }));
    let audited = false;
    for (const attempt of seen(log, n)) {
      const asked = attempt.auditAt < n ? attempt.audit : attempt.judgeAt < n ? attempt.judge : null;
      if (!asked || attempt.gateAt >= n || attempt.gate.verdict_mass === null) continue;
      audited = audited || attempt.auditAt < n;
      const place = Math.min(BINS - 1, Math.max(0, Math.floor((attempt.gate.confidence - 0.5) * 2 * BINS)));
      bins[place].count += 1;
      if (asked.verdict === attempt.gate.verdict) bins[place].agreed += 1;
    }
    return { bins, audited, count: bins.reduce((sum, bin) => sum + bin.count, 0) };
  }

  Confu.stepNumbers = { timeByPart, lostMs, whatIf, decisionAt, leastMass, agreement, PARTS };
})((window.Confu = window.Confu || {}));
