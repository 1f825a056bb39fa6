// The viewer inside the Gradio page: batches come as values of an HTML component, missing ones
// and recordings through its server functions. Also the page's heading and its message area.
(function () {
  "use strict";
  const { el } = window.Confu;
  const words = new window.Confu.Words(window.CONFU_WORDS, preferred());
  const host = { viewer: null, open: () => {} };
  const speakers = []; // redraw in another language

  function stored(key, value) {
    try {
      if (value !== undefined) localStorage.setItem(key, value);
      return localStorage.getItem(key);
    } catch {
      return null; // storage may be forbidden; the page works without it
    }
  }

  function preferred() {
    const asked = new URLSearchParams(location.search).get("lang") || stored("confu.language");
    if (asked === "ko" || asked === "en") return asked;
    return (navigator.language || "").startsWith("ko") ? "ko" : "en";
  }

  function setLanguage(language) {
    words.set(language);
    stored("confu.language", language);
    for (const speak of speakers) speak();
  }

  function setDark(dark) {
    document.body.classList.toggle("dark", dark);
    stored("confu.dark", dark ? "1" : "0");
  }

  const narrow = () => window.matchMedia("(max-width: 768px)").matches;
  const sidebar = () => document.querySelector("#controls");

  function sidebarToggle(open) {
    const panel = sidebar();
    const button = panel && panel.querySelector(".toggle-button");
    const isOpen = panel && (panel.classList.contains("open") || panel.closest(".sidebar.open") !== null);
    if (button && isOpen !== open) button.click();
  }

  window.ConfuHost = {
    words,
    get viewerForTests() {
      return host.viewer;
    },

    viewer(element, props, server, watch) {
      const box = element.querySelector(".cf-host");
      const viewer = window.ConfuViewer.mount(box, {
        words: window.CONFU_WORDS,
        lang: words.lang,
        fetchMissing: (run, from) => server.missing_batches({ run, from }),
      });
      host.viewer = viewer;
      speakers.push(() => viewer.setLanguage(words.lang));
      host.open = async (name) => {
        if (!name) return;
        if (narrow()) sidebarToggle(false);
        const recording = await server.open_recording(name);
        if (recording.error) viewer.complain(words.say("notice.bad_recording", { reason: recording.error }));
        else viewer.load(recording);
      };
      const value = () => JSON.parse(props.value);
      watch("value", () => viewer.push(value()));
      if (value().recording) host.open(value().recording);
      if (narrow()) setTimeout(() => sidebarToggle(false), 0);
    },

    open(name) {
      return host.open(name);
    },

    /** The message area under the buttons: a key of the dictionary, or a sentence as it is. */
    notice(element, props, watch) {
      const line = element.querySelector(".cf-notice");
      let shown = {};
      const draw = () => {
        const { key, text, args, kind } = shown;
        const label = args && `page.${args.name}`; // a setting is called as its control is
        const named = words.has(label) ? { ...args, name: words.say(label) } : args;
        line.textContent = key ? words.say(key, named) : text || "";
        line.dataset.kind = kind || "";
        line.hidden = !line.textContent;
        if (key === "notice.running" && narrow()) sidebarToggle(false);
      };
      /** Answers may overtake each other: what was said earlier never replaces what came later. */
      const hear = () => {
        const said = JSON.parse(props.value);
        if ((said.n || 0) < (shown.n || 0)) return;
        shown = said;
        draw();
      };
      speakers.push(draw);
      watch("value", hear);
      hear();
    },

    /** Title, language and theme switches; `trigger` tells Python about a new language. */
    heading(element, trigger, eventName) {
      const box = element.querySelector(".cf-page-head");
      const choose = (language) => {
        setLanguage(language);
        trigger(eventName, { language });
      };
      const draw = () => box.replaceChildren(...headingParts(choose));
      speakers.push(draw);
      if (stored("confu.dark") !== null) setDark(stored("confu.dark") === "1");
      draw();
      document.documentElement.lang = words.lang;
      if (words.lang !== "en") trigger(eventName, { language: words.lang });
    },
  };

  function headingParts(choose) {
    const language = (code, name) =>
      el("button", { type: "button", text: name, lang: code, "aria-pressed": String(words.lang === code), on: { click: () => choose(code) } });
    document.documentElement.lang = words.lang;
    return [
      el("div", { class: "cf-title" }, [
        el("h1", { text: words.say("page.title") }), el("p", { text: words.say("page.subtitle") }),
      ]),
      el("div", { class: "cf-switches" }, [
        el("button", { type: "button", class: "cf-own", text: words.say("page.own"), on: { click: () => sidebarToggle(true) } }),
        el("div", { class: "cf-switch", role: "group", "aria-label": words.say("page.language") }, [language("en", "English"), language("ko", "한국어")]),
        el("button", {
          type: "button", class: "cf-switch-theme", "aria-label": words.say("page.theme"), title: words.say("page.theme"), text: "◐",
          on: { click: () => setDark(!document.body.classList.contains("dark")) },
        }),
      ]),
    ];
  }
})();
