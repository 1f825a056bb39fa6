// Keyboard shortcuts. They stay out of the way of typing, of composing (Korean input), and of
// controls that use the same keys themselves.
(function (Confu) {
  "use strict";
  const KEYS = {
    " ": "play", ArrowRight: "forward", ArrowLeft: "back", Home: "start", End: "end",
    l: "follow", e: "toggle_mode", "+": "faster", "=": "faster", "-": "slower",
    "[": "previous_cycle", "]": "next_cycle",
  };
  const TYPING = "input, textarea, select, [contenteditable='true']";

  function listen(viewer) {
    const handle = (event) => {
      if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target instanceof Element ? event.target : document.body;
      const scrubber = target.classList.contains("cf-range");
      if (!scrubber && target.closest(TYPING)) return;
      if (scrubber && /^(Arrow|Home|End|Page)/.test(event.key)) return;
      const inside = viewer.root.contains(target);
      if (!inside && target !== document.body) return;
      if (event.key === " " && target.closest("button, summary, a")) return;
      const action = actionOf(event, viewer);
      if (!action) return;
      event.preventDefault();
      viewer.act(...action);
    };
    document.addEventListener("keydown", handle);
    return () => document.removeEventListener("keydown", handle);
  }

  function actionOf(event, viewer) {
    if (/^[1-9]$/.test(event.key)) {
      const log = viewer.timeline.logs[Number(event.key) - 1];
      return log ? ["lane", log.name] : null;
    }
    const action = KEYS[event.key];
    if (!action) return null;
    if (event.shiftKey && (action === "forward" || action === "back")) return [`${action}_cycle`];
    return [action];
  }

  Confu.listenToKeys = listen;
})((window.Confu = window.Confu || {}));
