// Batches of a live race as they come from a host: {run, seq, meta?, events, done}. A host may
// repeat, drop or reorder batches (Gradio coalesces updates); what is delivered is in order,
// once, and without gaps, because missing batches are asked for.
(function (Confu) {
  "use strict";
  const SILENCE = 3000; // ms without a batch before we ask; our choice

  class Inbox {
    /** @param deliver called with each batch in order
     *  @param fetchMissing (run, from) -> Promise of an array of batches, or null */
    constructor(deliver, fetchMissing) {
      this.deliver = deliver;
      this.fetchMissing = fetchMissing;
      this.run = null;
      this.left = new Set(); // runs that are over or were left
      this.next = 0;
      this.held = new Map(); // seq -> batch that came too early
      this.asking = false;
      this.repaired = 0;
      this.timer = null;
    }

    accept(batch) {
      if (!batch || !batch.run || this.left.has(batch.run)) return;
      if (batch.run !== this.run) this.begin(batch.run);
      if (batch.seq < this.next) return;
      this.held.set(batch.seq, batch);
      this.flush();
    }

    begin(run) {
      this.leave();
      this.run = run;
      this.next = 0;
      this.held.clear();
      this.asking = false;
    }

    /** No batch of the current run is wanted any more. */
    leave() {
      clearTimeout(this.timer);
      if (this.run) this.left.add(this.run);
      this.run = null;
    }

    flush() {
      while (this.held.has(this.next)) {
        const batch = this.held.get(this.next);
        this.held.delete(this.next);
        this.next += 1;
        this.deliver(batch);
        if (batch.done) return this.leave();
      }
      if (this.held.size) this.ask();
      else this.waitInSilence();
      return undefined;
    }

    waitInSilence() {
      clearTimeout(this.timer);
      if (this.fetchMissing) this.timer = setTimeout(() => this.ask(), SILENCE);
    }

    async ask() {
      if (!this.fetchMissing || this.asking || !this.run) return;
      this.asking = true;
      const run = this.run;
      let batches = [];
      try {
        batches = (await this.fetchMissing(run, this.next)) || [];
      } catch (error) {
        console.warn("confu: could not fetch missing batches", error);
      }
      if (run !== this.run) return;
      this.asking = false;
      this.repaired += batches.length;
      for (const batch of batches) if (batch.seq >= this.next) this.held.set(batch.seq, batch);
      if (this.held.has(this.next)) this.flush();
      else this.waitInSilence();
    }
  }

  Confu.Inbox = Inbox;
})((window.Confu = window.Confu || {}));
