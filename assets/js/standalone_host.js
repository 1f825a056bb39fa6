// The viewer in a file of its own: recordings stand in the page as data, nothing is fetched.
(function () {
  "use strict";
  const { el } = window.Confu;
  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const dictionary = data("words");
  const races = data("races");
  const asked = new URLSearchParams(location.search).get("lang") || document.documentElement.lang;
  const words = new window.Confu.Words(dictionary, asked === "ko" ? "ko" : "en");
  const box = document.getElementById("viewer");
  const head = document.getElementById("head");
  const viewer = window.ConfuViewer.mount(box, { words: dictionary, lang: words.lang });
  let shown = 0;

  function show(place) {
    shown = place;
    viewer.load(races[place]);
    draw();
  }

  function speak(language) {
    words.set(language);
    viewer.setLanguage(language);
    draw();
  }

  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.body.classList.toggle("dark", dark);

  function languageButton(code, name) {
    return el("button", { type: "button", text: name, lang: code, "aria-pressed": String(words.lang === code), on: { click: () => speak(code) } });
  }

  function chooser() {
    if (races.length < 2) return null;
    const list = el("select", { class: "cf-recordings", "aria-label": words.say("page.recording"), on: { change: () => show(Number(list.value)) } },
      races.map((race, i) => el("option", { value: i, text: race.name || race.title })));
    list.value = String(shown);
    return list;
  }

  function draw() {
    document.documentElement.lang = words.lang;
    head.replaceChildren(
      el("div", { class: "cf-title" }, [el("h1", { text: words.say("page.title") }), el("p", { text: words.say("page.subtitle") })]),
      el("div", { class: "cf-switches" }, [
        chooser(),
        el("div", { class: "cf-switch", role: "group", "aria-label": words.say("page.language") }, [languageButton("en", "English"), languageButton("ko", "한국어")]),
        el("button", {
          type: "button", class: "cf-switch-theme", "aria-label": words.say("page.theme"), title: words.say("page.theme"), text: "◐",
          on: { click: () => document.body.classList.toggle("dark") },
        }),
      ])
    );
  }

  window.viewer = viewer;
  show(0);
})();
