// One lane's events, digested once as they arrive. What is true after n events is then a matter
// of prefix lengths: every record carries `at`, the index of the event that made it. Nothing is
// ever recomputed, so playing, stepping back and scrubbing cost the same.
(function (Confu) {
  "use strict";

  class LaneLog {
    constructor(name, order) {
      this.name = name;
      this.order = order;
      this.events = [];
      this.tokens = []; // {at, t, id, text, origin, cycle, step, place}
      this.cycles = []; // one draft-verify round on tokens
      this.attempts = []; // one attempt at a reasoning step
      this.plans = []; // how many steps the machine drafts ahead
      this.marks = []; // {at, t, kind}: rejections and escalations, for the scrubber
      this.start = null;
      this.prefill = null;
      this.finish = null;
      this.openSteps = new Map();
    }

    push(event) {
      const at = this.events.length;
      this.events.push(event);
      const digest = DIGEST[event.event];
      if (digest) digest(this, event, at);
    }

    get lastTime() {
      return this.events.length ? this.events[this.events.length - 1].t_ms : 0;
    }

    /** How many records of a list exist after n events (lists are ordered by `at`). */
    static count(list, n) {
      let low = 0;
      let high = list.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (list[middle].at < n) low = middle + 1;
        else high = middle;
      }
      return low;
    }

    textAt(n) {
      const count = LaneLog.count(this.tokens, n);
      return this.tokens.slice(0, count).map((token) => token.text).join("");
    }

    finishedAt(n) {
      return this.finish !== null && this.finish.at < n ? this.finish.event : null;
    }

    /** The id of the token that ended this run, if it has ended that way and says nothing. */
    get endId() {
      const last = this.tokens[this.tokens.length - 1];
      const ended = this.finish !== null && this.finish.event.reason === "eos";
      return ended && last && last.text === "" ? last.id : null;
    }

    cycleNumbered(number) {
      for (let i = this.cycles.length - 1; i >= 0; i -= 1) {
        if (this.cycles[i].cycle === number) return this.cycles[i];
      }
      return null;
    }
  }

  function openStep(log, event, at, author) {
    const open = log.openSteps.get(event.step);
    if (open && !open[author]) return open;
    if (open) open.droppedAt = Math.min(open.droppedAt, at); // drafted anew: the old one was dropped
    const attempt = {
      at, step: event.step, t: event.t_ms, draft: null, draftAt: Infinity, target: null,
      targetAt: Infinity, gate: null, gateAt: Infinity, judge: null, judgeAt: Infinity,
      audit: null, auditAt: Infinity, resolved: null, resolvedAt: Infinity, droppedAt: Infinity,
    };
    log.openSteps.set(event.step, attempt);
    log.attempts.push(attempt);
    return attempt;
  }

  const DIGEST = {
    RunStarted(log, event, at) {
      log.start = { at, event };
    },
    PrefillFinished(log, event, at) {
      log.prefill = { at, event };
    },
    DraftProposed(log, event, at) {
      log.cycles.push({
        at, cycle: event.cycle, t: event.t_ms, proposed: event, verified: null,
        verifiedAt: Infinity, committedAt: Infinity, firstToken: log.tokens.length, numTokens: 0,
        height: Math.max(0, ...Confu.cycleFacts.depthsOf(event.tree)),
      });
    },
    DraftVerified(log, event, at) {
      const cycle = log.cycleNumbered(event.cycle);
      if (!cycle) return;
      cycle.verified = event;
      cycle.verifiedAt = at;
      if (event.token_origin === "recovered" && cycle.proposed.tree.parents.length > 1) {
        log.marks.push({ at, t: event.t_ms, kind: "rejected" });
      }
    },
    TokensCommitted(log, event, at) {
      event.token_ids.forEach((id, i) => {
        log.tokens.push({
          at, t: event.t_ms, id, text: event.texts[i], origin: event.origins[i],
          cycle: event.cycle, step: event.step, place: log.tokens.length,
        });
      });
      const cycle = event.cycle === null ? null : log.cycleNumbered(event.cycle);
      if (!cycle) return;
      cycle.committedAt = Math.min(cycle.committedAt, at);
      cycle.numTokens += event.token_ids.length;
    },
    RoundPlanned(log, event, at) {
      log.plans.push({ at, plan: event });
    },
    StepDrafted(log, event, at) {
      const attempt = openStep(log, event, at, event.author);
      attempt[event.author] = event;
      attempt[`${event.author}At`] = at;
    },
    StepGated(log, event, at) {
      const attempt = log.openSteps.get(event.step);
      if (!attempt) return;
      attempt.gate = event;
      attempt.gateAt = at;
      if (event.decision === "escalate") log.marks.push({ at, t: event.t_ms, kind: "escalated" });
    },
    StepJudged(log, event, at) {
      const attempt = log.openSteps.get(event.step);
      if (!attempt) return;
      const name = event.audit ? "audit" : "judge";
      attempt[name] = event;
      attempt[`${name}At`] = at;
    },
    StepResolved(log, event, at) {
      const attempt = log.openSteps.get(event.step) || openStep(log, event, at, "resolved");
      attempt.resolved = event;
      attempt.resolvedAt = at;
      log.openSteps.delete(event.step);
      if (event.kept !== "target" || event.bonus) return;
      if (attempt.draft) log.marks.push({ at, t: event.t_ms, kind: "rejected" });
      for (const [step, later] of log.openSteps) {
        if (step > event.step) {
          later.droppedAt = Math.min(later.droppedAt, at);
          log.openSteps.delete(step);
        }
      }
    },
    RunFinished(log, event, at) {
      log.finish = { at, event };
      if (event.reason !== "eos" && event.reason !== "length") return;
      for (const open of log.openSteps.values()) open.droppedAt = Math.min(open.droppedAt, at);
    },
  };

  Confu.LaneLog = LaneLog;
})((window.Confu = window.Confu || {}));
