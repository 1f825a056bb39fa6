// What race this is: recorded or live, the problem, the expected answer, and messages.
(function (Confu) {
  "use strict";
  const { el, setText } = Confu;

  class HeadingView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.source = el("span", { class: "cf-source" });
      this.sourceText = el("span", {});
      this.source.append(el("span", { class: "cf-source-dot", "aria-hidden": "true" }), this.sourceText);
      this.prompt = el("p", { class: "cf-prompt" });
      this.expected = el("span", { class: "cf-expected" });
      this.title = el("span", { class: "cf-expected" });
      this.honest = el("p", { class: "cf-honest", text: words.say("honest.clock") });
      this.notes = el("p", { class: "cf-honest" });
      this.message = el("p", { class: "cf-message", role: "alert" });
      this.node = el("header", { class: "cf-heading" }, [
        el("div", { class: "cf-heading-line" }, [this.source, this.title, this.expected]),
        this.prompt,
        this.message,
        this.honest,
        this.notes,
      ]);
    }

    draw(frame) {
      const { race } = this.context;
      const { words } = this.context;
      const current = race();
      const start = frame.lanes.map((lane) => lane.log.start).find(Boolean);
      const device = start && start.event.provenance ? start.event.provenance.device : words.say("heading.unknown_device");
      const live = current.source === "live";
      this.source.classList.toggle("cf-live", live);
      setText(this.sourceText, live ? words.say(frame.timeline.complete ? "heading.live_done" : "heading.live", { device })
        : current.source === "recording" ? words.say("heading.recorded", { device, date: (current.created || "").slice(0, 10) }) : words.say("heading.none"));
      setText(this.title, current.title || "");
      setText(this.prompt, current.prompt || (start ? start.event.prompt_text : ""));
      setText(this.notes, (current.notes || []).join(" "));
      this.honest.hidden = !frame.lanes.length;
      this.notes.hidden = !this.notes.textContent;
      const expected = current.expected;
      setText(this.expected, expected === null || expected === undefined ? "" : words.say("heading.expected", { answer: expected }));
      setText(this.message, current.message || "");
      this.message.hidden = !current.message;
    }
  }

  Confu.HeadingView = HeadingView;
})((window.Confu = window.Confu || {}));
