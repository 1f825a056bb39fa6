// Where the numbers come from: machine, precision, threads, versions, commit, command, models;
// and what each number means.
(function (Confu) {
  "use strict";
  const { el, count } = Confu;

  function facts(lanes, words) {
    const starts = lanes.filter((lane) => lane.log.start).map((lane) => lane.log.start.event);
    const origin = starts.map((start) => start.provenance).find(Boolean);
    const rows = [];
    if (origin) {
      rows.push(
        ["device", origin.device], ["dtype", origin.dtype], ["threads", String(origin.threads)],
        ["versions", origin.versions.map(([name, version]) => `${name} ${version}`).join(", ")],
        ["commit", origin.commit.slice(0, 12)], ["command", origin.command], ["created", origin.created]
      );
    }
    const models = new Map();
    for (const start of starts) for (const model of start.models) models.set(model.sha256 + model.role, model);
    for (const model of models.values()) {
      rows.push([`role.${model.role}`, `${model.name} · ${words.say("provenance.parameters", { count: count(model.num_parameters) })} · ${model.sha256.slice(0, 10)}`]);
    }
    if (starts.length) rows.push(["seed", String(starts[0].seed)]);
    return rows;
  }

  class ProvenanceView {
    constructor(context) {
      const { words } = context;
      this.context = context;
      this.key = "";
      this.list = el("dl", { class: "cf-provenance" });
      const definitions = ["clock", "rate", "tau", "speedup", "verified", "depths", "answer", "identical"].flatMap((name) => [
        el("dt", { text: words.say(`define.${name}.name`) }), el("dd", { text: words.say(`define.${name}`) }),
      ]);
      this.node = el("section", { class: "cf-panel cf-origin", "aria-label": words.say("provenance.title") }, [
        this.list,
        el("details", {}, [el("summary", { text: words.say("define.title") }), el("dl", { class: "cf-definitions" }, definitions)]),
      ]);
    }

    draw(frame) {
      this.node.hidden = !frame.lanes.length;
      const started = frame.lanes.filter((lane) => lane.log.start).length;
      const key = `${frame.race}/${started}`;
      if (key === this.key) return;
      this.key = key;
      const { words } = this.context;
      this.list.replaceChildren(
        ...facts(frame.lanes, words).map(([name, value]) =>
          el("div", {}, [el("dt", { text: words.say(`provenance.${name}`) }), el("dd", { text: value })])
        )
      );
    }
  }

  Confu.ProvenanceView = ProvenanceView;
})((window.Confu = window.Confu || {}));
