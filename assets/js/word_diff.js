// Which words of two texts differ: a longest common subsequence over words. Steps are short, so
// the quadratic table is small; longer texts are returned whole, as different.
(function (Confu) {
  "use strict";
  const LIMIT = 400; // words

  /** @returns [{text, changed}] for `text`, marked where `other` does not have the word. */
  function wordDiff(text, other) {
    const a = text.split(/(\s+)/).filter((word) => word !== "");
    const b = other.split(/(\s+)/).filter((word) => word !== "");
    if (a.length > LIMIT || b.length > LIMIT) return [{ text, changed: true }];
    const rows = a.length + 1;
    const table = Array.from({ length: rows }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i -= 1) {
      for (let j = b.length - 1; j >= 0; j -= 1) {
        table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    const parts = [];
    let j = 0;
    for (let i = 0; i < a.length; i += 1) {
      while (j < b.length && a[i] !== b[j] && table[i][j + 1] >= table[i + 1][j]) j += 1;
      const same = j < b.length && a[i] === b[j];
      if (same) j += 1;
      const changed = !same && a[i].trim() !== "";
      const last = parts[parts.length - 1];
      if (last && last.changed === changed) last.text += a[i];
      else parts.push({ text: a[i], changed });
    }
    return parts;
  }

  Confu.wordDiff = wordDiff;
})((window.Confu = window.Confu || {}));
